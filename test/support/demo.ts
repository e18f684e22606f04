import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { compileCache } from './compile-cache.ts';
import { root } from './sources.ts';

interface Finished {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** A running `countersign demo` on free ports. */
export interface RunningDemo {
  readonly proxyUrl: string;
  readonly adminUrl: string;
  readonly gatewayUrl: string;
  readonly gatewayAdminUrl: string;
  readonly readyFile: string;
  readonly child: ChildProcess;
  readonly finished: Promise<Finished>;
  /** Ends it with SIGTERM. */
  readonly stop: () => Promise<Finished>;
}

/** For each of the four. */
export const freePorts = ['--port', '0'];

/** Processes of `countersign` with a temporary directory that they share. */
export class Processes {
  readonly folder = mkdtempSync(join(tmpdir(), 'countersign-demo-test-'));
  readonly #children: ChildProcess[] = [];

  /** @param input standard input */
  spawn(argv: readonly string[], input = ''): { child: ChildProcess; finished: Promise<Finished> } {
    const child = spawn(process.execPath, [join(root, 'src/main.ts'), ...argv], {
      env: { PATH: process.env['PATH'] ?? '', TMPDIR: this.folder, ...compileCache },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#children.push(child);
    child.stdin.end(input);
    return { child, finished: finished(child, text(child.stdout), text(child.stderr)) };
  }

  run(argv: readonly string[], input = ''): Promise<Finished> {
    return this.spawn(argv, input).finished;
  }

  async startDemo(argv: readonly string[] = [], command = 'demo'): Promise<RunningDemo> {
    const readyFile = join(this.folder, `ready-${this.#children.length}.json`);
    const { child, finished } = this.spawn([command, ...freePorts, '--ready-file', readyFile, ...argv]);
    while (!existsSync(readyFile)) {
      if (child.exitCode !== null) throw new Error(`not started: ${(await finished).err}`);
      await setTimeout(20);
    }
    const urls: Pick<RunningDemo, 'proxyUrl' | 'adminUrl' | 'gatewayUrl' | 'gatewayAdminUrl'> = JSON.parse(
      readFileSync(readyFile, 'utf8'),
    );
    const stop = (): Promise<Finished> => {
      child.kill('SIGTERM');
      return finished;
    };
    return { ...urls, readyFile, child, finished, stop };
  }

  /** Ends what still runs, and deletes the directory. */
  clear(): void {
    for (const child of this.#children.splice(0)) child.kill('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }
}

async function finished(child: ChildProcess, out: Promise<string>, err: Promise<string>): Promise<Finished> {
  const code = await new Promise<number | null>((resolve) => {
    child.once('close', resolve);
  });
  return { code, out: await out, err: await err };
}
