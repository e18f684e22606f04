import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { until } from './until.ts';

/**
 * Starts a server that others wrote. Resolves when it listens on the port of loopback.
 *
 * @returns what ends it
 * @throws Error if it ends before
 */
export async function startListening(
  program: string,
  args: readonly string[],
  port: number,
): Promise<() => Promise<void>> {
  const child = spawn(program, args, { stdio: 'ignore' });
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`${program} ended with exit code ${child.exitCode}`);
    return accepts(port);
  }, `${program} listens`);
  return () => kill(child);
}

/** Resolves when it has ended. */
export async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
