import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { auditIn } from '../support/audit.ts';
import { type Shape, texts } from '../support/client-inputs.ts';
import { everything } from '../support/config.ts';
import { type Cost, growthProblem } from '../support/cpu-time.ts';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { jwtCaller } from '../support/jwt.ts';
import { openProbe, probeOptions } from '../support/loop-probe.ts';
import type { CountersignProcess } from '../support/process.ts';

const starts = harness(afterAll);
let proxy: CountersignProcess;
let measure: (work: () => Promise<unknown>) => Promise<Cost>;

/** A real process with everything that looks at a request: JWTs, an audit trail, more parameters than by default. */
beforeAll(async () => {
  const gateway = await starts.recordingGateway();
  const folder = starts.folder();
  const jwk = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ format: 'jwk' });
  proxy = await starts.process({
    gateway: gateway.url,
    nodeOptions: probeOptions,
    config: {
      proxy: { port: 0, maxParameters: 10_000, timeouts: { shutdownDelay: '0s' } },
      audit: auditIn(folder),
      jwtIssuers: {
        idp: {
          issuer: 'https://idp.test',
          audience: 'countersign',
          jwks: { file: folder.file('keys.json', JSON.stringify({ keys: [jwk] })) },
        },
      },
      callers: [
        { name: 'local', credentials: [{ anonymous: true }], allow: [everything] },
        jwtCaller('billing', { subject: 'billing' }),
      ],
    },
  });
  measure = await openProbe(proxy.stderr);
  for (let request = 0; request < 200; request += 1) await proxy.transfer();
});

/** The bytes of a request with an input of about so many bytes. */
type Request = (input: Shape, bytes: number) => Buffer;

function request(target: string, headers: string, body: string): Buffer {
  const bytes = Buffer.from(body);
  const head = `POST ${target} HTTP/1.1\r\nHost: x\r\n${headers}Content-Length: ${bytes.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head, 'latin1'), bytes]);
}

const form = 'Content-Type: application/x-www-form-urlencoded\r\n';
const inBody =
  (prefix: string): Request =>
  (input, bytes) =>
    request(paths.transfer, form, prefix + input(bytes));
/** As UTF-8, like the head of a client that sends more than ASCII. */
const headText = (input: Shape, bytes: number): string => Buffer.from(input(bytes)).toString('latin1');
const inHeader =
  (name: string): Request =>
  (input, bytes) =>
    request(paths.balance, `${name}: ${headText(input, bytes)}\r\n`, '');

const bodyPlaces: Readonly<Record<string, Request>> = {
  'the name of a parameter': inBody('client_orderid=1&'),
  'the value of a parameter': inBody('order_desc='),
};
const headPlaces: Readonly<Record<string, Request>> = {
  ...Object.fromEntries(
    [
      'Authorization',
      'Accept',
      'Content-Type',
      'Content-Encoding',
      'Connection',
      'Cookie',
      'Countersign-Login',
      'Expect',
      'traceparent',
      'Transfer-Encoding',
      'X-Request-Id',
    ].map((name) => [name, inHeader(name)]),
  ),
  'the target': (input, bytes) =>
    request(`/sandbox/gw/api/v2/${headText(input, bytes).replaceAll(/[\s?]/g, '/')}`, form, ''),
};

/** Requests that are large by their form. */
const framings: Readonly<Record<string, (bytes: number) => Buffer>> = {
  'many headers': (bytes) => request(paths.balance, 'a:b\r\n'.repeat(bytes / 5), ''),
  'many cookies': (bytes) => request(paths.balance, 'Cookie: a=b\r\n'.repeat(bytes / 13), ''),
  'many names of headers': (bytes) =>
    request(paths.balance, Array.from({ length: bytes / 8 }, (_, name) => `a${name}:\r\n`).join(''), ''),
};
/** A form in chunks of single bytes: six times as much to parse. */
function inSingleBytes(bytes: number): Buffer {
  const start = Array.from('client_orderid=1&a=', (byte) => `1\r\n${byte}\r\n`).join('');
  const head = `POST ${paths.transfer} HTTP/1.1\r\nHost: x\r\n${form}Transfer-Encoding: chunked\r\n\r\n`;
  return Buffer.from(`${head}${start}${'1\r\na\r\n'.repeat(bytes - 19)}0\r\n\r\n`);
}

const kibibytes = (...sizes: number[]): number[] => sizes.map((size) => size * 1024);
/** Node accepts heads of 16 KiB. */
const sizes = { head: kibibytes(3.5, 7, 14), body: kibibytes(16, 32, 63) };
/** Milliseconds of CPU. A small request costs half of it, with what measures it. */
const floor = 4;

async function problemOf(requests: readonly Buffer[]): Promise<string | undefined> {
  return growthProblem(requests.length, floor, (size) =>
    measure(() => proxy.send(requests[size] ?? Buffer.alloc(0))),
  );
}

async function problemsOf(place: Request, bytes: readonly number[]): Promise<Record<string, string>> {
  const problems: Record<string, string> = {};
  for (const [name, input] of Object.entries(texts)) {
    const problem = await problemOf(bytes.map((size) => place(input, size)));
    if (problem !== undefined) problems[name] = problem;
  }
  return problems;
}

describe('the CPU time of a request grows linearly, and holds the event loop for less than 20 ms', () => {
  it.each(Object.entries(bodyPlaces))(
    'any text as %s',
    async (_, place) => {
      expect(await problemsOf(place, sizes.body)).toEqual({});
    },
    300_000,
  );

  it.each(Object.entries(headPlaces))(
    'any text in the head: %s',
    async (_, place) => {
      expect(await problemsOf(place, sizes.head)).toEqual({});
    },
    300_000,
  );

  it.each(Object.entries(framings))(
    '%s',
    async (_, framing) => {
      expect(await problemOf(sizes.head.map(framing))).toBeUndefined();
    },
    60_000,
  );

  it('a body in chunks of single bytes', async () => {
    expect(await problemOf(sizes.body.map(inSingleBytes))).toBeUndefined();
  }, 60_000);

  it('the process is well afterwards: a transfer is answered', async () => {
    expect((await proxy.transfer()).status).toBe(200);
  });
});
