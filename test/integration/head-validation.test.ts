import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Reason } from '../../src/errors.ts';
import { nextIsServed } from '../support/countersign.ts';
import { paths } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { expectProblem, expectRejectedAndClosed } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';

const { balance, transfer } = paths;

const starts = harness(afterAll);
let edge: Edge;

beforeAll(async () => {
  edge = await starts.edge();
});
beforeEach(() => {
  edge.gateway.requests.length = 0;
});

const http10 = (request: string): string => request.replace('HTTP/1.1', 'HTTP/1.0');
const withMethod = (method: string, target: string): string =>
  `${method} ${target} HTTP/1.1\r\nHost: countersign.test\r\n\r\n`;
const hidden = (count: number): string => `${'a:b\r\n'.repeat(count)}Host: other.test`;

const rejected: [name: string, request: string, reason: Reason][] = [
  ['GET', withMethod('GET', balance), 'method-not-allowed'],
  ['DELETE', withMethod('DELETE', balance), 'method-not-allowed'],
  ['OPTIONS', withMethod('OPTIONS', '*'), 'method-not-allowed'],
  ['PUT with a form', formRequest(balance, 'a=b').replace('POST', 'PUT'), 'method-not-allowed'],
  ['a query', formRequest(`${balance}?a=b`, 'a=b'), 'query-not-allowed'],
  ['an empty query', formRequest(`${balance}?`, 'a=b'), 'query-not-allowed'],
  [
    'a JSON body',
    formRequest(balance, '{"a":1}', ['Content-Type: application/json']),
    'unsupported-media-type',
  ],
  [
    'a multipart body',
    formRequest(balance, '--x--', ['Content-Type: multipart/form-data; boundary=x']),
    'unsupported-media-type',
  ],
  ['a gzip body', formRequest(balance, '\x1f\x8b', ['Content-Encoding: gzip']), 'unsupported-media-type'],
  [
    'the charset iso-8859-1',
    formRequest(balance, 'a=b', ['Content-Type: application/x-www-form-urlencoded; charset=iso-8859-1']),
    'unsupported-media-type',
  ],
  ['a body without a type', formRequest(balance, 'a=b', ['content-type: ']), 'unsupported-media-type'],
  [
    'two Content-Types',
    formRequest(balance, 'a=b', [
      'Content-Type: application/x-www-form-urlencoded',
      'Content-Type: text/plain',
    ]),
    'bad-request',
  ],
  ['no Host', 'POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n', 'bad-request'],
  ['two Hosts', formRequest(balance, 'a=b', ['Host: other.test']), 'bad-request'],
  ['a second Host behind 90 other headers', formRequest(balance, 'a=b', [hidden(90)]), 'bad-request'],
  [
    'Transfer-Encoding: identity, chunked',
    formRequest(balance, '0\r\n\r\n', ['Transfer-Encoding: identity, chunked']),
    'bad-request',
  ],
  ['an unknown expectation', formRequest(balance, 'a=b', ['Expect: 200-ok']), 'bad-request'],
  [
    'Countersign-Login twice',
    formRequest(transfer, 'client_orderid=1', ['Countersign-Login: acme', 'Countersign-Login: acme']),
    'bad-request',
  ],
  [
    'Authorization twice',
    formRequest(transfer, 'client_orderid=1', ['Authorization: Bearer a', 'authorization: Bearer b']),
    'bad-request',
  ],
];

describe('a request with an invalid head', () => {
  it.each(rejected)(
    'gets a problem response; only 400, 401 and 405 close the connection: %s',
    async (_, request, reason) => {
      const connection = await edge.connect();
      const response = await connection.send(request).response();
      expectProblem(response, reason);
      expect(edge.gateway.requests).toHaveLength(0);
      const closes = [400, 401, 405].includes(response.status);
      expect(response.headers.connection).toBe(closes ? 'close' : 'keep-alive');
      if (closes) expect(await connection.ended()).toBe('FIN');
      else expect(await nextIsServed(connection)).toBe(true);
    },
  );

  it('gets the allowed method in the response', async () => {
    const response = await edge.send(withMethod('GET', balance));
    expect(response.headers.allow).toBe('POST');
  });

  it.each([
    ['in HTTP/1.0', http10(formRequest(balance, '0\r\n\r\n', ['Transfer-Encoding: chunked']))],
    ['given twice', formRequest(balance, '', ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'])],
  ])('closes the connection if its end is unknown: Transfer-Encoding %s', async (_, request) => {
    await expectRejectedAndClosed(edge, request, 'bad-request');
  });

  it('is rejected before its body is received: with a complete response, then the connection closes', async () => {
    const connection = await edge.connect();
    connection.send(formRequest(balance, '', ['Content-Type: text/plain', 'Content-Length: 100']));
    const response = await connection.response();
    expectProblem(response, 'unsupported-media-type');
    expect(response.headers.connection).toBe('close');
    connection.send('x'.repeat(100));
    expect(await connection.ended()).toBe('FIN');
  });
});

const withVersion = (version: string): string => formRequest(balance, 'a=b').replace('HTTP/1.1', version);

/** Node's parser accepts these; another server may read a different request from the same bytes. */
const ambiguous: [name: string, request: string][] = [
  ['HTTP/2.0', withVersion('HTTP/2.0')],
  ['HTTP/0.9', withVersion('HTTP/0.9')],
  ['no version', withVersion('').replace(' \r\n', '\r\n')],
  ...[
    'Transfer_Encoding: chunked',
    'transfer_encoding: identity',
    'Transfer.Encoding: chunked',
    'Content_Length: 100',
    'Content_Type: text/plain',
    'Content_Encoding: gzip',
    'Countersign_Login: beta',
    'Countersign.Login: beta',
  ].map((line): [string, string] => [line, formRequest(balance, 'a=b', [line])]),
];

describe('an ambiguous request', () => {
  it.each(ambiguous)('is rejected, and nothing after it is processed: %s', async (_, request) => {
    const response = await expectRejectedAndClosed(edge, request + formRequest(balance), 'bad-request');
    expect(response.headers.connection).toBe('close');
  });

  it.each(['X_Request_Id: 7', 'x.b3.traceid: 7'])(
    'is not one with a header of no meaning here: %s',
    async (line) => {
      const response = await edge.send(formRequest(balance, '', [line]));
      expect(response.status).toBe(200);
    },
  );
});

/** Node's parser fails on these, so the end of the request is unknown. */
const unparsed: [name: string, bytes: string | Buffer][] = [
  ['text that is not HTTP', 'hello\r\n\r\n'],
  ['a target that is a host and port', formRequest('gateway.test:443')],
  ['a TLS ClientHello', Buffer.from('16030100c8010000c40303', 'hex')],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  [
    'both Content-Length and Transfer-Encoding',
    formRequest(balance, '0\r\n\r\n', ['Content-Length: 3', 'Transfer-Encoding: chunked']),
  ],
  ['two Content-Lengths', formRequest(balance, 'a=b', ['Content-Length: 3', 'Content-Length: 4'])],
  ['a space before the colon of a header', formRequest(balance, 'a=b', ['Content-Length : 3'])],
  ['a header with a bare line feed', `POST ${balance} HTTP/1.1\nHost: x\n\n`],
];

const tooLarge: [name: string, bytes: string][] = [
  ['101 headers', formRequest(balance, 'a=b', ['a:b\r\n'.repeat(98).trimEnd()])],
  ['a second Host behind 2,100 other headers', formRequest(balance, 'a=b', [hidden(2_100)])],
  ['a header of 20,000 characters', formRequest(balance, '', [`X-Long: ${'x'.repeat(20_000)}`])],
  [
    'a flood of headers',
    formRequest(
      balance,
      '',
      Array.from({ length: 3000 }, (_, n) => `X-${n}: y`),
    ),
  ],
  ['a target of 20,000 characters', formRequest(`/${'x'.repeat(20_000)}`)],
];

describe.each([
  ['TCP', false],
  ['TLS', true],
])('bytes that are not a valid request, over %s,', (_transport, tls) => {
  let direct: Edge;
  beforeAll(async () => {
    direct = await starts.edge({ tls });
  });

  it.each(unparsed)('get a problem response, and the connection closes: %s', async (_, bytes) => {
    const response = await expectRejectedAndClosed(direct, bytes, 'bad-request');
    expect(response.headers.connection).toBe('close');
  });

  it.each(tooLarge)('get a 431 with the limit, and the connection closes: %s', async (_, bytes) => {
    const response = await expectRejectedAndClosed(direct, bytes, 'head-too-large');
    expect(response.body.toString()).toMatch(/more than (16384 bytes or )?100 headers/);
  });

  it('have one log line and are counted, like every other request', async () => {
    const before = (await direct.requestLines(0)).length;
    const counted = () => direct.counted('requests_total', { reason: 'bad-request', status: '400' });
    const earlier = await counted();
    const response = await direct.send('hello\r\n\r\n');
    const lines = (await direct.requestLines(before + 1)).slice(before);
    expect(lines).toEqual([
      expect.objectContaining({
        requestId: response.headers['x-request-id'],
        status: 400,
        reason: 'bad-request',
      }),
    ]);
    expect(await counted()).toBe(earlier + 1);
  });

  it('get a 405 if they are a CONNECT request', async () => {
    const request = withMethod('CONNECT', 'gateway.test:443');
    const response = await expectRejectedAndClosed(direct, request, 'method-not-allowed');
    expect(response.headers.allow).toBe('POST');
  });
});

const absolute = (authority: string): string => formRequest(`${authority}${balance}`, 'a=b');

describe('a request target with a host', () => {
  it.each([
    'http://countersign.test',
    'HTTP://Countersign.Test:8080',
    'https://127.0.0.1',
    'http://[::1]:80',
  ])('is accepted if the host is one of ours: %s', async (authority) => {
    const connection = await edge.connect();
    expect((await connection.send(absolute(authority)).response()).status).toBe(200);
    expect(edge.gateway.requests[0]?.target).toBe(balance.replace('/sandbox', ''));
    expect(await nextIsServed(connection)).toBe(true);
  });

  it.each(['http://other.test', 'http://['])('is misdirected otherwise: %s', async (authority) => {
    const connection = await edge.connect();
    expectProblem(await connection.send(absolute(authority)).response(), 'unknown-host');
    expect(await nextIsServed(connection)).toBe(true);
    expect(edge.gateway.requests).toHaveLength(1);
  });

  it('counts instead of the Host header', async () => {
    const other = (request: string): string => request.replace('Host: countersign.test', 'Host: other.test');
    expectProblem(await edge.send(other(formRequest(balance, 'a=b'))), 'unknown-host');
    expect((await edge.send(other(absolute('http://countersign.test')))).status).toBe(200);
  });

  it.each(['*', 'http://user@countersign.test/', 'ftp://countersign.test/'])(
    'is invalid in any other form: %s',
    async (target) => {
      await expectRejectedAndClosed(edge, formRequest(target), 'bad-request');
    },
  );
});

describe('a valid request', () => {
  const type = 'Content-Type: application/x-www-form-urlencoded';

  it.each([
    ['charset=utf-8', formRequest(balance, 'a=b', [`${type};charset=UTF-8`])],
    ['a quoted charset', formRequest(balance, 'a=b', [`${type}; charset="utf-8"`])],
    [
      'Transfer-Encoding: Chunked',
      formRequest(balance, '3\r\na=b\r\n0\r\n\r\n', ['Transfer-Encoding: Chunked']),
    ],
    ['100 headers', formRequest(balance, 'a=b', ['a:b\r\n'.repeat(97).trimEnd()])],
    ['an empty body without a type', `POST ${balance} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`],
    ['HTTP/1.0', http10(formRequest(balance, 'a=b'))],
    [
      'an offer to upgrade, which is ignored',
      formRequest(balance, 'a=b', ['Connection: Upgrade', 'Upgrade: h2c']),
    ],
  ])('%s', async (_, request) => {
    expect((await edge.send(request)).status).toBe(200);
    expect(edge.gateway.requests).toHaveLength(1);
  });

  it.each([
    ['two blanks before the target', (request: string) => request.replace(' ', '  ')],
    ['two blanks behind the target', (request: string) => request.replace(' HTTP', '  HTTP')],
    ['RTSP/1.1', (request: string) => request.replace('HTTP/1.1', 'RTSP/1.1')],
  ])(
    'a request line that the parser reads leniently is normalized for the gateway: %s',
    async (_, lenient) => {
      const response = await edge.send(lenient(formRequest(balance, 'a=b')));
      expect(response.status).toBe(200);
      const received = edge.gateway.requests.map(({ method, target }) => `${method} ${target}`);
      expect(received).toEqual([`POST ${balance.replace('/sandbox', '')}`]);
    },
  );
});
