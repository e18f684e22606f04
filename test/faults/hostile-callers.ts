import { setTimeout as wait } from 'node:timers/promises';
import { CallerConnection } from './caller-connection.ts';
import type { Instance } from './instance.ts';
import type { Random } from './random.ts';

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
export type HostileKind = (typeof hostileKinds)[number];

const connectRequest = 'CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n';
const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

/** Resolves when the connection is over. */
export async function attack(kind: HostileKind, instance: Instance, random: Random): Promise<void> {
  const port = kind === 'admin-garbage' ? instance.options.adminPort : instance.port;
  const connection = await CallerConnection.open(port);
  if (typeof connection === 'string') return;
  await attacks[kind](connection, random);
}

const attacks: Readonly<
  Record<HostileKind, (connection: CallerConnection, random: Random) => Promise<void>>
> = {
  'connect-reset': async (connection, random) => {
    connection.write(connectRequest);
    await wait(random.int(0, 3));
    connection.reset();
  },
  'connect-close': async (connection) => {
    connection.write(connectRequest);
    // With unread data, the system resets the connection.
    connection.socket.pause();
    await wait(5);
    connection.close();
  },
  'connect-held': (connection) => hold(connection, get + connectRequest),
  'upgrade-reset': async (connection, random) => {
    connection.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    await wait(random.int(0, 3));
    connection.reset();
  },
  garbage: async (connection, random) => {
    connection.write(noise(random));
    await wait(random.int(0, 20));
    connection.reset();
  },
  'garbage-held': (connection, random) => hold(connection, noise(random)),
  'pipelined-gets': async (connection, random) => {
    connection.write(get.repeat(random.int(20, 200)));
    await untilOver(connection, 2_000);
  },
  'pipelined-gets-reset': async (connection, random) => {
    connection.write(get.repeat(random.int(20, 200)));
    await wait(random.int(0, 20));
    connection.reset();
  },
  'head-held': (connection) => hold(connection, 'POST /plain/gw/api/v4/transfer/1 HTTP/1.1\r\nHost: x\r\n'),
  'admin-garbage': async (connection, random) => {
    connection.write(random.chance(0.5) ? noise(random) : connectRequest);
    await wait(random.int(0, 5));
    connection.reset();
  },
};

async function hold(connection: CallerConnection, bytes: string | Buffer): Promise<void> {
  connection.write(bytes);
  await untilOver(connection, 15_000);
}

async function untilOver(connection: CallerConnection, milliseconds: number): Promise<void> {
  const until = performance.now() + milliseconds;
  while (connection.ending === undefined && performance.now() < until) await wait(50);
  connection.close();
}

function noise(random: Random): Buffer {
  return Buffer.from(Array.from({ length: random.int(1, 300) }, () => random.int(0, 255)));
}
