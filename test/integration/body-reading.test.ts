import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { nextIsServed } from '../support/countersign.ts';
import { paths } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { expectProblem, expectRejectedAndClosed } from '../support/problem.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';
import { testControlKey } from '../support/service.ts';
import { receivedFrom, verifyAuthorization } from '../support/verify.ts';

const { balance } = paths;

const limit = 65_536;
const formOf = (bytes: number): string => `a=${'x'.repeat(bytes - 2)}`;
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
const chunked = (lines: string[], body: string): string =>
  formRequest(balance, body, ['Transfer-Encoding: chunked', ...lines]);

const starts = harness(afterAll);

describe.each([
  ['TCP', false],
  ['TLS', true],
])('over %s', (_transport, tls) => {
  let edge: Edge;

  beforeAll(async () => {
    edge = await starts.edge({ tls });
  });
  beforeEach(() => {
    edge.gateway.requests.length = 0;
  });

  const received = () =>
    verifyAuthorization(receivedFrom(edge.gateway.requests[0]), { controlKey: testControlKey });

  describe('the size of a body', () => {
    it('may be 64 KiB', async () => {
      expect((await edge.send(formRequest(balance, formOf(limit)))).status).toBe(200);
      expect(received().form).toEqual([['a', 'x'.repeat(limit - 2)]]);
    });

    it('must not be announced as one byte more; such a body is not read', async () => {
      const connection = await edge.connect();
      connection.send(formRequest(balance, '', [`Content-Length: ${limit + 1}`]));
      expectProblem(await connection.response(), 'too-large');
      connection.send(formOf(limit + 1));
      expect(await connection.ended()).toBe('FIN');
      expect(edge.gateway.requests).toHaveLength(0);
    });

    it('is counted if not announced, and the body is rejected once it is too large', async () => {
      const connection = await edge.connect();
      connection.send(chunked([], `20000\r\n${formOf(limit + 1)}`));
      const response = await connection.response();
      expectProblem(response, 'too-large');
      expect(response.headers.connection).toBe('close');
      connection.finish();
      expect(await connection.ended()).toBe('FIN');
      expect(edge.gateway.requests).toHaveLength(0);
    });
  });

  describe('a chunked body', () => {
    it('is signed like any other and sent with its length', async () => {
      const connection = await edge.connect();
      connection.send(chunked([], `${chunk('a=b&c')}${chunk('=d')}${chunk('')}`));
      expect((await connection.response()).status).toBe(200);
      expect(received().form).toEqual([
        ['a', 'b'],
        ['c', 'd'],
      ]);
      const [request] = edge.gateway.requests;
      expect(request?.headers['transfer-encoding']).toBeUndefined();
      expect(Number(request?.headers['content-length'])).toBe(request?.body.length);
      expect(await nextIsServed(connection)).toBe(true);
    });

    it('may have trailers, which are ignored', async () => {
      const trailers = '0\r\nCountersign-Login: beta\r\nAuthorization: Bearer x\r\n\r\n';
      expect((await edge.send(chunked([], chunk('a=b') + trailers))).status).toBe(200);
      expect(received().oauth.get('oauth_consumer_key')).toBe('acme');
    });

    it.each([
      ['in mid-body', `${chunk('a=b')}ZZ\r\n`],
      ['at its first byte', 'ZZ\r\n'],
      ['with an endless chunk extension', `3;${'x'.repeat(20_000)}\r\na=b\r\n0\r\n\r\n`],
    ])('with invalid framing is one request, rejected once: %s', async (_, body) => {
      const before = (await edge.requestLines(0)).length;
      const response = await expectRejectedAndClosed(edge, chunked([], body), 'bad-request');
      expect((await edge.requestLines(before + 1)).slice(before)).toEqual([
        expect.objectContaining({ requestId: response.headers['x-request-id'], reason: 'bad-request' }),
      ]);
    });
  });

  describe('Expect: 100-continue', () => {
    const expecting = (lines: string[]): string =>
      formRequest(balance, '', ['Expect: 100-continue', ...lines]);

    it('gets 100 Continue when the body is needed, and the request is signed', async () => {
      const connection = await edge.connect();
      connection.send(expecting(['Content-Length: 3', 'Authorization: Basic eDp5']));
      expect((await connection.response()).status).toBe(100);
      expect((await connection.send('a=b').response()).status).toBe(200);
      expect(received().form).toEqual([['a', 'b']]);
      expect(edge.gateway.requests[0]?.rawHeaders.join()).not.toMatch(/expect|basic/i);
      expect(await nextIsServed(connection)).toBe(true);
    });

    it.each([
      ['by its type', ['Content-Type: text/plain', 'Content-Length: 3'], 'unsupported-media-type'],
      ['by its announced length', [`Content-Length: ${limit + 1}`], 'too-large'],
    ] as const)('is rejected without 100 Continue: %s', async (_, lines, reason) => {
      const connection = await edge.connect();
      connection.send(expecting([...lines]));
      const response = await connection.response();
      expectProblem(response, reason);
      expect(response.headers.connection).toBe('close');
      expect(await connection.ended()).toBe('FIN');
    });

    it('is rejected with a readable response if the body is too large', async () => {
      const connection = await edge.connect();
      connection.send(expecting(['Transfer-Encoding: chunked']));
      expect((await connection.response()).status).toBe(100);
      connection.send(chunk(formOf(limit + 50_000)));
      expectProblem(await connection.response(), 'too-large');
      connection.finish();
      expect(await connection.ended()).toBe('FIN');
    });

    it('is ignored in HTTP/1.0, which has no interim responses', async () => {
      const request = formRequest(balance, 'a=b', ['Expect: 100-continue']).replace('HTTP/1.1', 'HTTP/1.0');
      expect((await edge.send(request)).status).toBe(200);
    });
  });

  describe('a client that disconnects within the body', () => {
    const half = formRequest(balance, 'a=b', ['Content-Length: 10', 'Expect: 100-continue']);

    it.each([
      ['with a FIN', (connection: RawConnection) => connection.close()],
      ['with a RST', (connection: RawConnection) => connection.reset()],
    ])('has one log line with the reason caller-gone: %s', async (_, leave) => {
      const before = (await edge.requestLines(0)).length;
      const connection = await edge.connect();
      connection.send(half);
      // A RST discards what is not read yet; after 100 Continue the request has begun.
      expect((await connection.response()).status).toBe(100);
      leave(connection);
      await edge.requestLines(before + 1);
      expect((await edge.send(formRequest(balance))).status).toBe(200);
      const lines = (await edge.requestLines(before + 2)).slice(before);
      expect(lines.map(({ reason, status, outcome }) => ({ reason, status, outcome }))).toEqual([
        { reason: 'caller-gone', status: 499, outcome: 'not-sent' },
        { reason: undefined, status: 200, outcome: 'answered' },
      ]);
      expect(edge.gateway.requests).toHaveLength(1);
    });

    it('gets a response if it still reads: a body shorter than its Content-Length', async () => {
      const connection = await edge.connect();
      connection.send(half);
      expect((await connection.response()).status).toBe(100);
      connection.finish();
      expectProblem(await connection.response(), 'caller-gone');
      expect(await connection.ended()).toBe('FIN');
      expect(edge.gateway.requests).toHaveLength(0);
    });
  });

  describe('a slow client', () => {
    // The other part may take longer than the test.
    it.each([
      ['with the head', `POST ${balance} HTTP/1.1\r\nHost: `, { headers: '300ms' }],
      ['with the body', formRequest(balance, 'a=', ['Content-Length: 1000']), { body: '300ms' }],
    ])('that sends single bytes is rejected at the timeout: %s', async (_, beginning, timeouts) => {
      const slow = { headers: '30s', body: '30s' };
      const hasty = await starts.edge({
        tls,
        config: { proxy: { port: 0, timeouts: { ...slow, ...timeouts } } },
      });
      const connection = await hasty.connect();
      connection.send(beginning);
      const drip = setInterval(() => connection.send('x'), 100);
      try {
        const response = await connection.response();
        expectProblem(response, 'request-timeout');
        expect(response.headers.connection).toBe('close');
      } finally {
        clearInterval(drip);
      }
      expect(await connection.ended()).toBe('FIN');
      expect(hasty.gateway.requests).toHaveLength(0);
    });
  });
});
