import { afterAll, describe, expect, it } from '@jest/globals';
import { nextIsServed } from '../support/countersign.ts';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { expectProblem, expectRejectedAndClosed } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';
import { testControlKey } from '../support/service.ts';
import { receivedFrom, verifyAuthorization } from '../support/verify.ts';

const { balance } = paths;

const limit = 65_536;
const formOf = (bytes: number): string => `a=${'x'.repeat(bytes - 2)}`;
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
const chunked = (body: string): string => formRequest(balance, body, ['Transfer-Encoding: chunked']);
const expecting = (...lines: string[]): string =>
  formRequest(balance, '', ['Expect: 100-continue', ...lines]);

const starts = harness(afterAll);
const edge = starts.sharedEdge();

const received = () =>
  verifyAuthorization(receivedFrom(edge().gateway.requests[0]), { controlKey: testControlKey });

it('a body may be 64 KiB', async () => {
  expect((await edge().send(formRequest(balance, formOf(limit)))).status).toBe(200);
  expect(received().form).toEqual([['a', 'x'.repeat(limit - 2)]]);
});

it.each([
  ['announced', formRequest(balance, '', [`Content-Length: ${limit + 1}`])],
  ['announced by a client that waits for 100 Continue', expecting(`Content-Length: ${limit + 1}`)],
  ['sent', chunked(chunk(formOf(limit + 1)))],
])('a body is rejected, and not read further, when one byte more is %s', async (_, request) => {
  const connection = (await edge().connect()).send(request);
  const response = await connection.response();
  expectProblem(response, 'too-large');
  expect(response.headers.connection).toBe('close');
  connection.send(formOf(limit + 1)).finish();
  expect(await connection.ended()).toBe('FIN');
  expect(edge().gateway.requests).toHaveLength(0);
});

describe('a chunked body', () => {
  it('is signed like any other and sent with its length', async () => {
    const connection = await edge().connect();
    connection.send(chunked(`${chunk('a=b&c')}${chunk('=d')}${chunk('')}`));
    expect((await connection.response()).status).toBe(200);
    expect(received().form).toEqual([
      ['a', 'b'],
      ['c', 'd'],
    ]);
    const [request] = edge().gateway.requests;
    expect(request?.headers['transfer-encoding']).toBeUndefined();
    expect(Number(request?.headers['content-length'])).toBe(request?.body.length);
    expect(await nextIsServed(connection)).toBe(true);
  });

  it('may have trailers, which are ignored', async () => {
    const trailers = '0\r\nCountersign-Login: beta\r\nAuthorization: Bearer x\r\n\r\n';
    expect((await edge().send(chunked(chunk('a=b') + trailers))).status).toBe(200);
    expect(received().oauth.get('oauth_consumer_key')).toBe('acme');
  });

  it.each([
    ['in mid-body', `${chunk('a=b')}ZZ\r\n`],
    ['at its first byte', 'ZZ\r\n'],
    ['with an endless chunk extension', `3;${'x'.repeat(20_000)}\r\na=b\r\n0\r\n\r\n`],
  ])('with invalid framing is one request, rejected once: %s', async (_, body) => {
    const { requestLines, lineOf } = edge();
    const before = (await requestLines(0)).length;
    const response = await expectRejectedAndClosed(edge(), chunked(body), 'bad-request');
    expect(await lineOf(response)).toMatchObject({ reason: 'bad-request' });
    expect(await requestLines()).toHaveLength(before + 1);
  });
});

describe('Expect: 100-continue', () => {
  it('gets 100 Continue when the body is needed, and the request is signed', async () => {
    const connection = await edge().connect();
    connection.send(expecting('Content-Length: 3', 'Authorization: Basic eDp5'));
    expect((await connection.response()).status).toBe(100);
    expect((await connection.send('a=b').response()).status).toBe(200);
    expect(received().form).toEqual([['a', 'b']]);
    expect(edge().gateway.requests[0]?.rawHeaders.join()).not.toMatch(/expect|basic/i);
    expect(await nextIsServed(connection)).toBe(true);
  });

  it('is rejected without 100 Continue by its type', async () => {
    const request = expecting('Content-Type: text/plain', 'Content-Length: 3');
    const response = await expectRejectedAndClosed(edge(), request, 'unsupported-media-type');
    expect(response.headers.connection).toBe('close');
  });

  it('is ignored in HTTP/1.0, which has no interim responses', async () => {
    const request = formRequest(balance, 'a=b', ['Expect: 100-continue']).replace('HTTP/1.1', 'HTTP/1.0');
    expect((await edge().send(request)).status).toBe(200);
  });
});

// The other part may take longer than the test.
it.each([
  ['the head', `POST ${balance} HTTP/1.1\r\nHost: `, { headers: '300ms', body: '30s' }],
  ['the body', formRequest(balance, 'a=', ['Content-Length: 1000']), { headers: '30s', body: '300ms' }],
])('a client that sends single bytes of %s is rejected at the timeout', async (_, beginning, timeouts) => {
  const hasty = await starts.edge({ config: { proxy: { port: 0, timeouts } } });
  const connection = (await hasty.connect()).send(beginning);
  const drip = setInterval(() => connection.send('x'), 100);
  const response = await connection.response().finally(() => clearInterval(drip));
  expectProblem(response, 'request-timeout');
  expect(response.headers.connection).toBe('close');
  expect(await connection.ended()).toBe('FIN');
  expect(hasty.gateway.requests).toHaveLength(0);
});
