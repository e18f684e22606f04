import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { texts } from '../support/client-inputs.ts';
import { paths, post, transferForm } from '../support/forwarding.ts';
import { formRequest } from '../support/raw-http.ts';
import { madeUpChain } from './certificates.ts';
import type { Tally } from './tally.ts';
import { type Attack, breach, slowKid, type Target } from './target.ts';

/** Ways to attack that need no credentials, only a connection. */

/** A connection whose responses are counted by status; resolves to it when it is made. */
async function open(url: string, tally: Tally, own: ConnectionOptions | undefined): Promise<Socket> {
  const { hostname: host, port } = new URL(url);
  const address = { host, port: Number(port) };
  const socket =
    own === undefined ? connect(address) : connectTls({ ...address, rejectUnauthorized: false, ...own });
  socket.on('data', (chunk: Buffer) => {
    for (const [, status] of chunk.toString('latin1').matchAll(/HTTP\/1\.1 (\d{3})/g))
      tally.add(String(status));
  });
  await once(socket, own === undefined ? 'connect' : 'secureConnect', {
    signal: AbortSignal.timeout(20_000),
  });
  return socket.on('error', () => {});
}

const openTo = (target: Target, tally: Tally): Promise<Socket> =>
  open(target.url, tally, target.ca === undefined ? undefined : {});

/** Until the other side has ended the connection, or this time in milliseconds has passed. */
async function untilEnd(socket: Socket, milliseconds: number): Promise<void> {
  const ended = Promise.race([once(socket, 'close'), once(socket, 'end'), wait(milliseconds)]);
  await ended.catch(() => undefined);
  socket.destroy();
}

/** Client certificates with long chains of huge exponents. */
export const handshakes: Attack = async ({ url }, random, tally) => {
  const largest = { length: 60, modulusBytes: 384, exponentBytes: 384 };
  const others = Array.from({ length: 3 }, () => {
    const modulusBytes = random.pick([128, 256, 384, 1024]);
    const exponentBytes = modulusBytes > 384 ? 8 : modulusBytes;
    return { length: random.int(2, modulusBytes > 384 ? 15 : 60), modulusBytes, exponentBytes };
  });
  const chains = [largest, ...others].map((one) => madeUpChain(random, one));
  await tally.repeat(4, async (index) => {
    const own = index < 2 ? chains[0] : random.pick(chains);
    const socket = await open(url, tally, { ...own, maxVersion: index % 2 === 0 ? 'TLSv1.3' : 'TLSv1.2' });
    tally.add('handshake');
    socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
    await untilEnd(socket, 10_000);
  });
};

/** Heads that never end, as large as they may be, on as many connections as a descriptor limit allows. */
export const incompleteHeads: Attack = async (target, random, tally) => {
  const lines: readonly ((index: number) => string)[] = [
    () => 'a:b\r\n',
    (index) => `h${index}: ${index}\r\n`,
    () => `${'x'.repeat(60)}: \r\n`,
    () => `a: ${'y'.repeat(2_000)}\r\n`,
  ];
  const heads = [0, 0, random.int(1, 3)].map((shape) => {
    let head = `POST ${paths.transfer} HTTP/1.1\r\nHost: a\r\n`;
    for (let index = 0; head.length < 16_000; index += 1) head += lines[shape]?.(index) ?? '';
    return head.slice(0, 16_000);
  });
  const [connections, pause] = target.ca === undefined ? [4_570, 0.4] : [1_500, 2];
  await tally.repeat(connections, async (index) => {
    // So that the attacker does not hold itself up: all are open within 2 or 3 seconds.
    await wait(index * pause);
    const socket = await openTo(target, tally);
    tally.add('incomplete head');
    socket.write(heads[index % heads.length] ?? '');
    await untilEnd(socket, 60_000);
    await wait(1_000);
  });
};

/** Tokens with keys that the issuer may or may not have, while it takes its time to say so, and bytes behind them. */
export const unknownKids: Attack = async (target, random, tally) => {
  const encoded = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url');
  const signature = randomBytes(64).toString('base64url');
  const behind = formRequest(paths.transfer, `client_orderid=${'x'.repeat(60_000)}`);
  await tally.repeat(300, async () => {
    const header = { alg: 'ES256', kid: `k${random.int(0, 1e9)}` };
    const claims = { iss: target.issuer, sub: 'billing', aud: 'countersign', exp: Date.now() / 1000 + 300 };
    const token = `${encoded(header)}.${encoded(claims)}.${signature}`;
    const socket = await openTo(target, tally);
    socket.write(formRequest(paths.transfer, transferForm, [`Authorization: Bearer ${token}`]));
    socket.write(behind);
    tally.add('token');
    await untilEnd(socket, 7_000);
  });
};

/** Tokens that cost the verification with that key. */
export const issuerExponent: Attack = async (target, _random, tally) => {
  const encoded = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url');
  const header = { alg: 'RS256', kid: slowKid };
  const claims = { iss: target.issuer, sub: 'billing', aud: 'countersign', exp: 4e9 };
  const start = `${encoded(header)}.${encoded(claims)}`;
  await tally.repeat(8, async () => {
    // Below the modulus, which begins with 0xff.
    const signature = Buffer.concat([Buffer.of(1), randomBytes(383)]).toString('base64url');
    const { status } = await post(`${target.url}${paths.transfer}`, transferForm, {
      Authorization: `Bearer ${start}.${signature}`,
    });
    tally.add(status);
  });
};

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const unauthorized = formRequest(paths.transfer, transferForm, ['Authorization: Bearer wrong']);
const early = `POST ${paths.transfer} HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\nExpect: 100-continue\r\n\r\n`;

/** Requests, halves of requests and noise behind one another, by clients that read nothing, half-close or reset. */
export const pipelining: Attack = async (target, random, tally) => {
  await tally.repeat(100, async () => {
    const socket = await openTo(target, tally);
    if (random.chance(0.5)) socket.pause();
    const kind = random.int(0, 4);
    const pieces = [
      get,
      unauthorized,
      early + 'x'.repeat(30_000),
      `${get}${randomBytes(200).toString('latin1')}`,
    ];
    const piece = Buffer.from((pieces[kind] ?? get + unauthorized).repeat(kind === 2 ? 2 : 500), 'latin1');
    tally.add('burst');
    for (let burst = 0; burst < 20 && socket.writable; burst += 1) {
      if (!socket.write(piece)) await Promise.race([once(socket, 'drain'), once(socket, 'close'), wait(500)]);
      if (burst === 10 && random.chance(0.3)) socket.end();
    }
    await untilEnd(socket, 2_000);
  });
};

/** Bytes that a header or a request target may have. */
const headBytes = (text: string): string => text.replaceAll(/[\0\r\n]/g, '.');

const parsed = ['Authorization', 'Traceparent', 'Accept', 'X-Request-Id', 'Cookie', 'Origin'] as const;

/** A head of about so many bytes with this text in each of these headers. */
export function headOf(shape: string, bytes: number, names: readonly string[] = parsed): string {
  const text = headBytes(texts[shape]?.(bytes / names.length) ?? '');
  return formRequest(
    paths.transfer,
    transferForm,
    names.map((name) => `${name}: ${text}`),
  );
}

/** Texts that parsers take long for, in some headers, or in the target and the type of the form. */
export const heads: Attack = async (target, random, tally) => {
  await tally.repeat(8, async () => {
    const [shape, bytes] = [random.pick(Object.keys(texts)), random.pick([2_000, 8_000, 15_000])];
    const names = ['Content-Type', 'Host', ...parsed].filter(() => random.chance(0.25));
    const ordinary = headOf(shape, bytes, names.length === 0 ? parsed : names);
    const inTarget = ordinary.replace(
      paths.transfer,
      `/${encodeURI(headBytes(texts[shape]?.(bytes / 6) ?? ''))}`,
    );
    const socket = await openTo(target, tally);
    socket.write(random.chance(0.8) ? ordinary : inTarget);
    tally.add('head');
    await untilEnd(socket, 100);
  });
};

/** A loop over the pages of the admin port. */
export const adminPages: Attack = ({ adminUrl }, random, tally) =>
  tally.repeat(8, async () => {
    const page = random.pick(['/metrics', '/metrics', '/', '/status.json']);
    const { status } = await post(`${adminUrl}${page}`, '', {}, { method: 'GET' });
    tally.add(status);
  });

/** As many connections as the admin port has, which request pages and do not read them. */
export const slowReaders: Attack = ({ adminUrl }, random, tally) =>
  tally.repeat(99, async () => {
    const socket = await open(adminUrl, tally, undefined);
    socket.pause();
    const page = random.pick(['/metrics', '/status.json', '/']);
    socket.write(`GET ${page} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`.repeat(20));
    tally.add('reader');
    await untilEnd(socket, 60_000);
  });

/** What web pages make browsers send where requests need no credentials. */
export const browsers: Attack = (target, random, tally) =>
  tally.repeat(4, async () => {
    const origin = random.pick(['https://evil.test', 'null', 'http://127.0.0.1.evil.test']);
    const site = random.pick(['cross-site', 'same-site']);
    const headers = random.pick<Record<string, string>>([
      { Origin: origin },
      { Origin: origin, 'Sec-Fetch-Site': site },
      { 'Sec-Fetch-Site': site },
      { Host: `rebound-${random.int(0, 99)}.evil.test` },
    ]);
    const { status } = await post(`${target.url}/sandbox/gw/api/v4/transfer/1000`, transferForm, headers);
    tally.add(status === 200 ? `${breach}: paid with ${Object.keys(headers).join(' and ')}` : status);
  });
