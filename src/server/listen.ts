import type { Server } from 'node:http';
import { type Address, closeServer, listen } from '../util/listen.ts';

type Listening = readonly [server: Server, address: Address, scheme: string];

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
