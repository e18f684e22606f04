import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../support/random.ts';
import { RawConnection } from '../support/raw-http.ts';

const connectRequest = 'CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n';
const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
const upgrade = 'GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

/** What malicious clients send: nothing that may reach the gateway. */
const texts: readonly ((random: Random) => string | Buffer)[] = [
  () => connectRequest,
  () => get + connectRequest,
  () => upgrade,
  (random) => get.repeat(random.int(20, 200)),
  () => 'POST /plain/gw/api/v4/transfer/1 HTTP/1.1\r\nHost: x\r\n',
  (random) => random.bytes(random.int(1, 300)),
];

/** Resolves when the connection, to the proxy or to the admin port, is over. */
export async function attack(urls: readonly string[], random: Random): Promise<void> {
  // The instance may be down just now.
  const connection = await RawConnection.open(random.pick(urls)).catch(() => undefined);
  if (connection === undefined) return;
  connection.send(random.pick(texts)(random));
  const how = random.pick(['reset', 'unread', 'held'] as const);
  if (how === 'held') await connection.received(Number.POSITIVE_INFINITY, 15_000);
  else {
    // With unread data, the system resets a connection that is closed.
    if (how === 'unread') connection.pause();
    await wait(random.int(0, 20));
  }
  if (how === 'reset') connection.reset();
  else connection.close();
}
