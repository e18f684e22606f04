import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../support/random.ts';
import { RawConnection } from '../support/raw-http.ts';
import type { Instance } from './instance.ts';

/** Malicious clients. They send nothing that may reach the gateway. */
export const hostileKinds = [
  'connect-reset',
  'connect-close',
  'connect-held',
  'upgrade-reset',
  'garbage',
  'garbage-held',
  'pipelined-gets',
  'pipelined-gets-reset',
  'head-held',
  'admin-garbage',
] as const;
type HostileKind = (typeof hostileKinds)[number];

const connectRequest = 'CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n';
const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

/** Resolves when the connection is over. */
export async function attack(kind: HostileKind, instance: Instance, random: Random): Promise<void> {
  const url = kind === 'admin-garbage' ? instance.adminUrl : instance.url;
  // The instance may be down just now.
  const connection = await RawConnection.open(url).catch(() => undefined);
  if (connection === undefined) return;
  await attacks[kind](connection, random);
}

const attacks: Readonly<Record<HostileKind, (connection: RawConnection, random: Random) => Promise<void>>> = {
  'connect-reset': async (connection, random) => {
    connection.send(connectRequest);
    await wait(random.int(0, 3));
    connection.reset();
  },
  'connect-close': async (connection) => {
    connection.send(connectRequest);
    // With unread data, the system resets the connection.
    connection.pause();
    await wait(5);
    connection.close();
  },
  'connect-held': (connection) => hold(connection, get + connectRequest),
  'upgrade-reset': async (connection, random) => {
    connection.send('GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    await wait(random.int(0, 3));
    connection.reset();
  },
  garbage: async (connection, random) => {
    connection.send(noise(random));
    await wait(random.int(0, 20));
    connection.reset();
  },
  'garbage-held': (connection, random) => hold(connection, noise(random)),
  'pipelined-gets': async (connection, random) => {
    connection.send(get.repeat(random.int(20, 200)));
    await untilOver(connection, 2_000);
  },
  'pipelined-gets-reset': async (connection, random) => {
    connection.send(get.repeat(random.int(20, 200)));
    await wait(random.int(0, 20));
    connection.reset();
  },
  'head-held': (connection) => hold(connection, 'POST /plain/gw/api/v4/transfer/1 HTTP/1.1\r\nHost: x\r\n'),
  'admin-garbage': async (connection, random) => {
    connection.send(random.chance(0.5) ? noise(random) : connectRequest);
    await wait(random.int(0, 5));
    connection.reset();
  },
};

async function hold(connection: RawConnection, bytes: string | Buffer): Promise<void> {
  connection.send(bytes);
  await untilOver(connection, 15_000);
}

async function untilOver(connection: RawConnection, milliseconds: number): Promise<void> {
  await connection.received(Number.POSITIVE_INFINITY, milliseconds);
  connection.close();
}

function noise(random: Random): Buffer {
  return Buffer.from(Array.from({ length: random.int(1, 300) }, () => random.int(0, 255)));
}
