import type { Server } from 'node:http';

export type Listening = readonly [server: Server, address: { host: string; port: number }, scheme: string];

/** Opens both ports or none: a process that only has one of them must not look healthy. */
export async function listenOn(
  proxy: Listening,
  admin: Listening,
): Promise<[proxyUrl: string, adminUrl: string]> {
  const proxyUrl = await listen(...proxy);
  try {
    return [proxyUrl, await listen(...admin)];
  } catch (error) {
    await closeServer(proxy[0]);
    throw error;
  }
}

/** Closes a server and every connection to it. */
export function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

async function listen(
  server: Server,
  { host, port }: { host: string; port: number },
  scheme: string,
): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const address = server.address();
  const actualPort = typeof address === 'object' && address !== null ? address.port : port;
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${actualPort}`;
}
