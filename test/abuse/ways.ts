import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { paths, transferForm } from '../support/forwarding.ts';
import type { Random } from '../support/random.ts';
import { formRequest } from '../support/raw-http.ts';
import type { SettingOptions } from './setting.ts';

/** What an attacker, or the victim, knows of the attacked process. */
export interface Target {
  readonly url: string;
  readonly adminUrl: string;
  /** URL of the issuer whose tokens it accepts. */
  readonly issuer: string;
  /** How many logins have keys: `login-0` and so on, at the endpoints from 1000. */
  readonly logins: number;
}

/** What one client does again and again. */
type Attack = (index: number) => Promise<unknown>;
type Count = (event: string | number) => void;

interface Way {
  readonly title: string;
  /** The process that is attacked; a usual one unless given. */
  readonly setting?: SettingOptions;
  /** At once. */
  readonly clients: number;
  readonly prepare: (target: Target, random: Random, count: Count) => Attack;
  /**
   * The attacker takes all of `proxy.maxConnections`, which nothing prevents (docs/security-model.md): the victim has the
   * connections that it opened before.
   */
  readonly takesConnections?: true;
}

const transfer = '/sandbox/gw/api/v4/transfer/1000';
const asLine = (token: string): readonly string[] => [`Authorization: Bearer ${token}`];

/** Those without credentials first. */
const table = {
  'incomplete-heads': {
    title: 'thousands of heads that never end',
    takesConnections: true,
    clients: 4_570,
    prepare({ url }, _random, count) {
      const line = 'a:b\r\n';
      const head = `POST ${paths.transfer} HTTP/1.1\r\nHost: a\r\n${line.repeat(16_000 / line.length)}`;
      return async (index) => {
        // So that the attacker does not hold itself up: all are open within 2 seconds.
        await wait(index * 0.4);
        const socket = await open(url, count);
        count('incomplete head');
        socket.write(head.slice(0, 16_000));
        await untilEnd(socket, 60_000);
        await wait(1_000);
      };
    },
  },
  'unknown-kids': {
    title: 'tokens with unknown keys and bytes behind them, while the issuer is slow',
    setting: { issuerDelay: 5_000 },
    clients: 300,
    prepare({ url, issuer }, random, count) {
      const encoded = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url');
      const signature = randomBytes(64).toString('base64url');
      const behind = formRequest(paths.transfer, `client_orderid=${'x'.repeat(60_000)}`);
      return async () => {
        const header = { alg: 'ES256', kid: `k${random.int(0, 1e9)}` };
        const claims = { iss: issuer, sub: 'billing', aud: 'countersign', exp: Date.now() / 1000 + 300 };
        const token = `${encoded(header)}.${encoded(claims)}.${signature}`;
        const socket = await open(url, count);
        socket.write(formRequest(paths.transfer, transferForm, asLine(token)) + behind);
        count('token');
        await untilEnd(socket, 7_000);
      };
    },
  },
  pipelining: {
    title: 'requests, halves and noise behind one another, of clients that read nothing or half-close',
    clients: 100,
    prepare({ url }, random, count) {
      const unauthorized = formRequest(paths.transfer, transferForm, asLine('wrong'));
      const half = `POST ${paths.transfer} HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n`;
      const pieces = [get, unauthorized, get + unauthorized, `${get}noise`].map((piece) => piece.repeat(500));
      return async () => {
        const socket = await open(url, count);
        if (random.chance(0.5)) socket.pause();
        const piece = random.pick([...pieces, half + 'x'.repeat(30_000)]);
        count('burst');
        for (let burst = 0; burst < 20 && socket.writable; burst += 1) {
          if (!socket.write(piece))
            await Promise.race([once(socket, 'drain'), once(socket, 'close'), wait(500)]);
          if (burst === 10 && random.chance(0.3)) socket.end();
        }
        await untilEnd(socket, 2_000);
      };
    },
  },
  'admin-pages': {
    title: 'pages of the admin port with 1,000 logins, of which most are not read',
    setting: { logins: 1_000 },
    clients: 80,
    prepare({ adminUrl }, random, count) {
      return async (index) => {
        const page = random.pick(['/metrics', '/metrics', '/', '/status.json']);
        const socket = await open(adminUrl, count);
        const isReader = index < 8;
        if (!isReader) socket.pause();
        const request = `GET ${page} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: ${isReader ? 'close' : 'keep-alive'}\r\n\r\n`;
        socket.write(request.repeat(isReader ? 1 : 20));
        count(isReader ? 'page' : 'unread page');
        await untilEnd(socket, 60_000);
      };
    },
  },
  'slow-bodies': {
    title: 'forms that never end, by a caller with maxInFlight 2',
    takesConnections: true,
    clients: 1_500,
    prepare({ url }, random, count) {
      const form = formRequest(transfer, `client_orderid=${'x'.repeat(65_000)}`, asLine('greedy'));
      return async () => {
        const socket = await open(url, count);
        socket.write(form.slice(0, -50));
        count('slow body');
        for (let bytes = 0; bytes < 10 && socket.writable; bytes += 1) {
          await wait(random.int(500, 1_000));
          socket.write('x');
        }
        socket.destroy();
      };
    },
  },
} as const satisfies Record<string, Way>;

export type WayName = keyof typeof table;
export const ways: Readonly<Record<WayName, Way>> = table;
export const wayNames = Object.keys(table).filter((name): name is WayName => name in table);

const get = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';

/** A connection whose responses are counted by status. */
async function open(url: string, count: Count): Promise<Socket> {
  const { hostname: host, port } = new URL(url);
  const socket = connect({ host, port: Number(port) });
  socket.on('data', (chunk: Buffer) => {
    for (const [, status = ''] of chunk.toString('latin1').matchAll(/HTTP\/1\.1 (\d{3})/g)) count(status);
  });
  await once(socket, 'connect', { signal: AbortSignal.timeout(20_000) });
  return socket.on('error', () => {});
}

/** Until the other side has ended the connection, or this time in milliseconds has passed. */
async function untilEnd(socket: Socket, milliseconds: number): Promise<void> {
  const ended = Promise.race([once(socket, 'close'), once(socket, 'end'), wait(milliseconds)]);
  await ended.catch(() => undefined);
  socket.destroy();
}
