import { Agent, createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { describeNetworkFailure, networkFailureOf } from '../../../src/net/network-failure.ts';
import { NoResponse, sendSmallRequest } from '../../../src/net/small-request.ts';
import { type Listening, listen } from '../../support/listening.ts';
import { until } from '../../support/until.ts';

let respond: (request: IncomingMessage, response: ServerResponse) => void;
let paths: (string | undefined)[];
let listening: Listening;

beforeAll(async () => {
  const server = createServer((request, response) => {
    paths.push(request.url);
    respond(request, response);
  });
  listening = await listen(server);
});
beforeEach(() => {
  paths = [];
});
afterAll(() => listening.close());

const agent = new Agent();
const way = { agent, timeout: 5_000, maxResponseBytes: 10 };

const get = (given: Partial<Parameters<typeof sendSmallRequest>[1]> = {}) => {
  const url = new URL(`http://127.0.0.1:${listening.port}/one`);
  return sendSmallRequest({ method: 'GET', url, headers: {} }, { ...way, ...given });
};

const failure = (given: Parameters<typeof get>[0] = {}): Promise<unknown> =>
  get(given).then(
    () => 'a response',
    (error: unknown) => error,
  );

const drip = (_: IncomingMessage, response: ServerResponse): void => {
  response.writeHead(200);
  const timer = setInterval(() => response.write('x'), 20);
  response.once('close', () => clearInterval(timer));
};

describe('a small request', () => {
  it('has the whole response', async () => {
    respond = (_, response) => response.writeHead(201, { 'X-Own': 'y' }).end('0123456789');
    expect(await get()).toMatchObject({ status: 201, headers: { 'x-own': 'y' }, text: '0123456789' });
  });

  it('follows no redirect', async () => {
    respond = (_, response) => response.writeHead(307, { Location: '/other' }).end();
    expect(await get()).toMatchObject({ status: 307 });
    expect(paths).toEqual(['/one']);
  });

  it.each([
    ['drips', drip],
    ['does not come', () => {}],
  ])('ends at its deadline if the response %s', async (_, behavior) => {
    respond = behavior;
    const error = await failure({ timeout: 100, maxResponseBytes: 1_000 });
    expect(error).toMatchObject({ reason: 'late', message: 'no response within 0.1 s' });
  });

  it('ends at its deadline also while its agent waits for a file, and fails as that does', async () => {
    const error = await failure({ timeout: 100, agent: new Promise<Agent>(() => {}) });
    expect(error).toMatchObject({ reason: 'late' });
    const problem = new Error('ca.pem: does not exist');
    expect(await failure({ agent: Promise.reject(problem) })).toBe(problem);
    expect(paths).toEqual([]);
  });

  it('ends when it is stopped', async () => {
    respond = drip;
    const stopped = new AbortController();
    const error = failure({ stopped: stopped.signal });
    await until(() => paths.length > 0);
    stopped.abort();
    expect(await error).toMatchObject({ reason: 'stopped' });
  });

  it('reads no more than it may', async () => {
    respond = (_, response) => response.writeHead(200, { 'X-Own': 'y' }).end('0123456789x');
    const error = await failure();
    expect(error).toMatchObject({ reason: 'too-large', head: { status: 200, headers: { 'x-own': 'y' } } });
  });

  it.each([
    [
      'is cut',
      (_: IncomingMessage, response: ServerResponse) =>
        response.writeHead(200, { 'Content-Length': 9 }).write('x', () => response.destroy()),
    ],
    ['is a reset', ({ socket }: IncomingMessage) => socket.resetAndDestroy()],
    [
      'switches protocols',
      ({ socket }: IncomingMessage) =>
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
    ],
  ])('has no response that %s, and its connection ends', async (_, behavior) => {
    const closed = Promise.withResolvers<void>();
    respond = (request, response) => {
      request.socket.once('close', () => closed.resolve());
      behavior(request, response);
    };
    expect(await failure()).toMatchObject({ reason: 'failed' });
    await closed.promise;
  });

  it.each([
    ['is sent again', true, 3],
    ['fails if it may not be repeated', false, 2],
  ])('on a kept-alive connection that the server had closed %s', async (_, mayRepeat, sent) => {
    const kept = new Agent({ keepAlive: true, maxSockets: 1 });
    // The second request arrives as the server resets the connection.
    respond = ({ socket }, response) => {
      if (paths.length === 2) socket.resetAndDestroy();
      else response.end('x');
    };
    try {
      await get({ agent: kept });
      const second = await failure({ agent: kept, again: mayRepeat ? agent : undefined });
      expect(second instanceof NoResponse).toBe(!mayRepeat);
      expect(paths).toHaveLength(sent);
    } finally {
      kept.destroy();
    }
  });
});

it.each([
  ['ENOTFOUND', 'dns', 'DNS: ENOTFOUND'],
  ['EAI_AGAIN', 'dns', 'DNS: EAI_AGAIN'],
  ['ECONNREFUSED', 'refused', 'connection refused: ECONNREFUSED'],
  ['ETIMEDOUT', 'timeout', 'timeout: ETIMEDOUT'],
  ['CERT_HAS_EXPIRED', 'tls', 'TLS: CERT_HAS_EXPIRED'],
  ['EPROTO', 'tls', 'TLS: EPROTO'],
  ['ECONNRESET', 'other', 'ECONNRESET'],
  [undefined, 'other', 'no code'],
])('an error with the code %s is a failure of %s', (code, failure, text) => {
  const error = Object.assign(new Error('of 192.0.2.1'), { code });
  expect([networkFailureOf(error), describeNetworkFailure(error)]).toEqual([failure, text]);
});
