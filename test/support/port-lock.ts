import { createServer } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';

/** An unused port. The process that listens on it may use the ports of the embedded default. */
const lockPort = 28_090;

/** Waits until those ports are free to use. Returns a function that releases them. */
export async function acquire(): Promise<() => void> {
  for (;;) {
    const server = createServer();
    const held = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(lockPort, '127.0.0.1', () => resolve(true));
    });
    if (held) return () => void server.close();
    await wait(200);
  }
}
