import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';

/** A port whose backlog is full: the system drops every further connection. */
export async function startBlackHole(): Promise<{ port: number; close: () => Promise<void> }> {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads');
     const server = require('node:net').createServer();
     server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
       parentPort.postMessage(server.address().port);
       setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
     });`,
    { eval: true },
  );
  const [port] = await once(worker, 'message');
  const waiting: Socket[] = Array.from({ length: 4 }, () => connect(port, '127.0.0.1').on('error', () => {}));
  await wait(100);
  return {
    port,
    close: async () => {
      for (const socket of waiting) socket.destroy();
      await worker.terminate();
    },
  };
}
