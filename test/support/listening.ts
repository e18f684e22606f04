import type { Server, Socket } from 'node:net';

export interface Listening {
  readonly port: number;
  /** Ends the server and all its connections. */
  readonly close: () => Promise<void>;
}

/** Lets a server listen on loopback, on a free port unless given. */
export async function listen(server: Server, onPort = 0): Promise<Listening> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket.once('close', () => sockets.delete(socket)));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(onPort, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server listens on no port');
  return {
    port: address.port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
