import type { Server } from 'node:http';

export type Listening = readonly [server: Server, at: { host: string; port: number }, scheme: string];

/** Both or none: a process that cannot do its whole work should not look as if it could. */
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

async function listen(server: Server, at: { host: string; port: number }, scheme: string): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(at.port, at.host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : at.port;
  return `${scheme}://${at.host.includes(':') ? `[${at.host}]` : at.host}:${port}`;
}
