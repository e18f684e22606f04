import { createServer } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';

/** A port that nobody else uses: whoever listens on it may use the ports of the embedded default. */
const lockPort = 28_090;

/** Keeps tests that use the fixed ports of the embedded default from running at the same time. */
export async function withEmbeddedPorts<T>(work: () => Promise<T>): Promise<T> {
  const release = await acquire();
  try {
    return await work();
  } finally {
    release();
  }
}

/** Waits for its turn; gives what ends it. */
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
