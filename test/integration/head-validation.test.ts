import { afterAll, describe, expect, it } from '@jest/globals';
import type { Reason } from '../../src/errors.ts';
import { nextIsServed } from '../support/countersign.ts';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { expectProblem, expectRejectedAndClosed } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';

const { balance } = paths;

const edge = harness(afterAll).sharedEdge();

const withMethod = (method: string, target: string): string =>
  `${method} ${target} HTTP/1.1\r\nHost: countersign.test\r\n\r\n`;
const withLines = (...lines: string[]): string => formRequest(balance, 'a=b', lines);
const withVersion = (version: string): string => withLines().replace('HTTP/1.1', version);
const manyLines = (count: number, last = 'a:b'): string => withLines('a:b\r\n'.repeat(count) + last);
const chunked = 'Transfer-Encoding: chunked';
const withoutType = (request: string): string => request.replace(/Content-Type: .*\r\n/i, '');

describe('a request with an invalid head', () => {
  it.each<[name: string, request: string, reason: Reason]>([
    ['DELETE', withMethod('DELETE', balance), 'method-not-allowed'],
    ['OPTIONS', withMethod('OPTIONS', '*'), 'method-not-allowed'],
    ['an empty query', formRequest(`${balance}?`), 'query-not-allowed'],
    ['a multipart body', withLines('Content-Type: multipart/form-data'), 'unsupported-media-type'],
    ['a body without a type', withoutType(withLines()), 'unsupported-media-type'],
    [
      'a chunked body without a type',
      withoutType(formRequest(balance, '0\r\n\r\n', [chunked])),
      'unsupported-media-type',
    ],
    ['a gzip body', withLines('Content-Encoding: gzip'), 'unsupported-media-type'],
    ['two Content-Types', withLines('Content-Type: text/plain', 'content-type: text/plain'), 'bad-request'],
    ['no Host', 'POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n', 'bad-request'],
    ['a second Host behind 90 other headers', manyLines(90, 'Host: other.test'), 'bad-request'],
    ['a second coding', withLines('Transfer-Encoding: identity, chunked'), 'bad-request'],
    ['an unknown expectation', withLines('Expect: 200-ok'), 'bad-request'],
    ['two logins', withLines('Countersign-Login: acme', 'Countersign-Login: acme'), 'bad-request'],
    ['two credentials', withLines('Authorization: Bearer a', 'authorization: Bearer b'), 'bad-request'],
  ])(
    'gets a problem response; only 400, 401 and 405 close the connection: %s',
    async (_, request, reason) => {
      const connection = await edge().connect();
      const response = await connection.send(request).response();
      expectProblem(response, reason);
      expect(edge().gateway.requests).toHaveLength(0);
      const closes = [400, 401, 405].includes(response.status);
      expect(response.headers.connection).toBe(closes ? 'close' : 'keep-alive');
      if (closes) expect(await connection.ended()).toBe('FIN');
      else expect(await nextIsServed(connection)).toBe(true);
    },
  );

  /** Some are accepted by Node's parser, but another server may read a different request from the same bytes. */
  it.each<[string, string]>([
    ['HTTP/2.0', withVersion('HTTP/2.0')],
    ['HTTP/0.9', withVersion('HTTP/0.9')],
    ['no version', withVersion('').replace(' \r\n', '\r\n')],
    ['a coding in HTTP/1.0', formRequest(balance, '0\r\n\r\n', [chunked]).replace('/1.1', '/1.0')],
    ['two codings', formRequest(balance, '', [chunked, chunked])],
    ...['Transfer_Encoding', 'content_encoding', 'content.length', 'Content_Type', 'countersign.login'].map(
      (name): [string, string] => [`${name}, which others may read with a dash`, withLines(`${name}: 0`)],
    ),
    ['text that is not HTTP', 'hello\r\n\r\n'],
    ['a target that is a host and port', formRequest('gateway.test:443')],
    ['a length and a coding', formRequest(balance, '0\r\n\r\n', ['Content-Length: 3', chunked])],
    ['two lengths', withLines('Content-Length: 3', 'Content-Length: 4')],
    ['a space before the colon of a header', withLines('Content-Length : 3')],
    ['a header with a bare line feed', `POST ${balance} HTTP/1.1\nHost: x\n\n`],
    ['a target with a user', formRequest('http://user@countersign.test/')],
    ['a target of another protocol', formRequest('ftp://countersign.test/')],
    ['a target that is no path', formRequest('*')],
  ])('that is ambiguous is rejected, and nothing after it is processed: %s', async (_, request) => {
    const response = await expectRejectedAndClosed(edge(), request + withLines(), 'bad-request');
    expect(response.headers.connection).toBe('close');
  });

  it.each([
    ['101 headers', manyLines(97)],
    ['a second Host behind 2,100 other headers', manyLines(2_100, 'Host: other.test')],
    ['a header of 20,000 characters', withLines(`X-Long: ${'x'.repeat(20_000)}`)],
  ])('that is too large gets a 431 with the limit, and the connection closes: %s', async (_, request) => {
    const response = await expectRejectedAndClosed(edge(), request, 'head-too-large');
    expect(response.body.toString()).toMatch(/more than (16384 bytes or )?100 headers/);
  });

  it.each(['GET', 'CONNECT'])('gets the allowed method in the response to %s', async (method) => {
    const request = withMethod(method, 'gateway.test:443').replace(/(?<=GET )\S+/, balance);
    const response = await expectRejectedAndClosed(edge(), request, 'method-not-allowed');
    expect(response.headers.allow).toBe('POST');
  });

  it('has one log line and is counted, like every other request, also if it is not HTTP', async () => {
    const { requestLines, counted, send, lineOf } = edge();
    const lines = (await requestLines(0)).length;
    const count = () => counted('requests_total', { reason: 'bad-request', status: '400' });
    const before = await count();
    const response = await send('hello\r\n\r\n');
    expect(await lineOf(response)).toMatchObject({ status: 400, reason: 'bad-request' });
    expect([(await requestLines()).length, await count()]).toEqual([lines + 1, before + 1]);
  });
});

const absolute = (authority: string): string => formRequest(`${authority}${balance}`, 'a=b');

describe('a request target with a host', () => {
  it.each(['HTTP://Countersign.Test:8080', 'https://127.0.0.1', 'http://[::1]:80'])(
    'is accepted if the host is one of ours: %s',
    async (authority) => {
      const connection = await edge().connect();
      expect((await connection.send(absolute(authority)).response()).status).toBe(200);
      expect(edge().gateway.requests[0]?.target).toBe(balance.replace('/sandbox', ''));
      expect(await nextIsServed(connection)).toBe(true);
    },
  );

  it.each(['http://other.test', 'http://['])('is misdirected otherwise: %s', async (authority) => {
    const connection = await edge().connect();
    expectProblem(await connection.send(absolute(authority)).response(), 'unknown-host');
    expect(await nextIsServed(connection)).toBe(true);
    expect(edge().gateway.requests).toHaveLength(1);
  });

  it('counts instead of the Host header', async () => {
    const other = (request: string): string => request.replace('Host: countersign.test', 'Host: other.test');
    expectProblem(await edge().send(other(withLines())), 'unknown-host');
    const none = withVersion('HTTP/1.0').replace('Host: countersign.test\r\n', '');
    expectProblem(await edge().send(none), 'unknown-host');
    expect((await edge().send(other(absolute('http://countersign.test')))).status).toBe(200);
  });
});

it.each([
  [
    'Transfer-Encoding: Chunked',
    formRequest(balance, '3\r\na=b\r\n0\r\n\r\n', ['Transfer-Encoding: Chunked']),
  ],
  ['100 headers', manyLines(96)],
  ['an empty body without a type', `POST ${balance} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`],
  [
    'HTTP/1.0, which knows no expectations',
    withVersion('HTTP/1.0').replace('Host:', 'Expect: 200-ok\r\nHost:'),
  ],
  ['headers whose names are only like ours', withLines('x_content.length: 0')],
  ['an offer to upgrade, which is ignored', withLines('Connection: Upgrade', 'Upgrade: h2c')],
  ['blanks and a protocol that the parser reads leniently', withVersion(' RTSP/1.1').replace(' ', '  ')],
])('a valid request, which is normalized for the gateway: %s', async (_, request) => {
  expect((await edge().send(request)).status).toBe(200);
  const received = edge().gateway.requests.map(({ method, target }) => `${method} ${target}`);
  expect(received).toEqual([`POST ${balance.replace('/sandbox', '')}`]);
});
