import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Reason } from '../../src/errors.ts';
import { pathAdvice } from '../../src/gateway/router.ts';
import { packageVersion } from '../../src/service/package-info.ts';
import { everything, tokenCredential } from '../support/config.ts';
import { nextIsServed } from '../support/countersign.ts';
import { blocksOf } from '../support/doc-examples.ts';
import { paths, statusForm, transferForm } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { expectProblem } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';
import type { Recorded } from '../support/recording-gateway.ts';
import { testControlKey } from '../support/service.ts';
import { root } from '../support/sources.ts';
import { receivedFrom, verifyAuthorization } from '../support/verify.ts';

const { balance, status, transfer } = paths;
const controlKey = { controlKey: testControlKey };

const starts = harness(afterAll);
let edge: Edge;

beforeAll(async () => {
  const cancel = { signature: 'RSA-SHA256', loginFrom: 'header', readOnly: false } as const;
  edge = await starts.edge({
    config: {
      operations: {
        cancel: { ...cancel, path: '/api/v4/transfer/{endpointGroup}/cancel' },
        return: {
          path: '/api/v2/return/{endpoint}',
          signature: 'SHA1-control',
          loginFrom: 'header',
          control: ['login', 'client_orderid', 'orderid', 'amount', 'currency'],
          parameters: {
            amount: { minorUnitsOf: 'currency', required: false },
            currency: { required: false },
          },
        },
      },
    },
  });
});
beforeEach(() => {
  edge.gateway.requests.length = 0;
  edge.gateway.respond = (response) => response.end('OK');
});

/** The one request that the gateway got. */
function received(gateway = edge.gateway): Recorded {
  const [request, ...others] = gateway.requests;
  if (request === undefined || others.length > 0)
    throw new Error(`the gateway got ${others.length + 1} requests`);
  return request;
}

/** The only headers that may be sent, for a request with this Connection header; and nothing of the client's. */
function expectOwnHeaders(connection: string): void {
  const { rawHeaders, headers, body } = received();
  expect(rawHeaders.filter((_, index) => index % 2 === 0).join()).toBe(
    'Host,Content-Type,Content-Length,Authorization,Accept,Accept-Encoding,User-Agent,Connection',
  );
  expect(headers).toMatchObject({
    host: new URL(edge.gateway.url).host,
    'content-type': 'application/x-www-form-urlencoded',
    'content-length': String(body.length),
    accept: '*/*',
    'accept-encoding': 'identity',
    'user-agent': `countersign/${packageVersion()}`,
    connection,
  });
  expect(rawHeaders.join() + String(body)).not.toMatch(/theirs|10\.0\.0\.1|dGhlaXJz/i);
}

const tricks: Readonly<Record<string, string>> = {
  Authorization: 'OAuth oauth_signature="theirs"',
  Cookie: 'session=theirs',
  'X-Forwarded-For': '10.0.0.1',
  'X-Forwarded-Host': 'theirs.example',
  'X-Request-Id': 'theirs',
  'X-Original-URL': '/theirs',
  'X-HTTP-Method-Override': 'DELETE',
  Forwarded: 'for=10.0.0.1;host=theirs.example',
  Via: '1.1 theirs',
  Accept: 'application/theirs',
  'Accept-Encoding': 'gzip, br',
  'User-Agent': 'theirs/1',
  Referer: 'https://theirs.example/',
  'Proxy-Authorization': 'Basic dGhlaXJz',
  'Proxy-Connection': 'keep-alive',
  TE: 'trailers',
  Upgrade: 'websocket',
  'Keep-Alive': 'timeout=5',
  'Countersign-Login': 'acme',
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  baggage: 'theirs=1',
  Oauth_Consumer_Key: 'theirs',
};

describe('no header of the client reaches the gateway', () => {
  it.each([
    ['on a dedicated connection', transfer, transferForm, 'close'],
    ['on a pooled connection', status, statusForm, 'keep-alive'],
  ])('%s', async (_what, path, form, connection) => {
    expect((await edge.post(path, form, tricks)).status).toBe(200);
    expectOwnHeaders(connection);
  });

  it.each(['keep-alive', 'Host, Authorization, Content-Length, X-Forwarded-For'])(
    'whatever names are in "Connection: %s"',
    async (connection) => {
      await edge.post(transfer, transferForm, { Connection: connection });
      expectOwnHeaders('close');
    },
  );
});

it('the README shows what a service sends, and what the gateway gets: not its token', async () => {
  const blocks = blocksOf(readFileSync(join(root, 'README.md'), 'utf8'), 'http');
  const [before = '', after = ''] = blocks.map((block) => block.text.trimEnd());
  const [, token = ''] = /Bearer (.*)/.exec(before) ?? [];
  const callers = [{ name: 'shop', credentials: [tokenCredential(token)], allow: [everything] }];
  const { gateway, send } = await starts.edge({ config: { callers } });
  const [head = '', body = ''] = before.split('\n\n');
  // curl adds the length, and the block leaves it out.
  const lines = [...head.split('\n'), `Content-Length: ${body.length}`, '', body];
  expect((await send(lines.join('\r\n'))).status).toBe(200);

  const { method, target, rawHeaders, body: sent } = received(gateway);
  const shown = new Set(['Host', 'Content-Type', 'Authorization']);
  const headers = rawHeaders.flatMap((name, index) =>
    index % 2 === 0 && shown.has(name) ? [`${name}: ${rawHeaders[index + 1]}`] : [],
  );
  const whole = [`${method} ${target} HTTP/1.1`, ...headers, '', String(sent)].join('\n');
  /** What differs from run to run, and the names of the example. */
  const masked = (request: string): string =>
    request
      .replace(/(oauth_(?:nonce|timestamp|signature)="?)[^"&\s]+/g, '$1...')
      .replace(/^(Host): .*/m, '$1: gateway.example');
  expect(masked(after.replaceAll('\n  ', ' '))).toBe(masked(whole));
  expect(whole).not.toContain(token);
});

it.each([
  ['under a base path', (url: string) => `${url}/paynet/v1`, '127.0.0.1', '/paynet/v1'],
  ['under a base path that ends in a slash', (url: string) => `${url}/paynet/`, '127.0.0.1', '/paynet'],
  ['under a host in upper case', (url: string) => url.replace('127.0.0.1', 'LOCALHOST'), 'localhost', ''],
])('the signed URL is the one that the gateway sees: %s', async (_what, change, host, basePath) => {
  const proxy = await starts.proxy({ gateway: change(edge.gateway.url) });
  expect((await proxy.post(balance, 'balance-name=Main+EUR')).status).toBe(200);
  expect(received().target).toBe(`${basePath}/gw/api/v2/get-balance/manager/acme`);
  expect(received().headers.host).toBe(`${host}:${new URL(edge.gateway.url).port}`);
  const { form } = verifyAuthorization(receivedFrom(received()), controlKey);
  expect(form).toEqual([['balance-name', 'Main EUR']]);
});

const manyOf = (count: number): string => Array.from({ length: count }, (_, n) => `p${n}=`).join('&');

describe('a form', () => {
  const rejected: [name: string, target: string, form: string, reason: Reason][] = [
    ['% without hex digits', balance, 'a=%zz', 'malformed-form'],
    ['a name that is no UTF-8', balance, '%FF=a', 'malformed-form'],
    ['1,001 parameters', balance, manyOf(1001), 'too-large'],
    ['an escaped oauth_signature', balance, 'a=b&oauth%5Fsignature=x', 'reserved-parameter'],
    ['client_orderid missing', status, 'login=acme', 'parameter-invalid'],
  ];
  it.each(rejected)(
    'is rejected, and with 400 the connection closes: %s',
    async (_, target, form, reason) => {
      const connection = await edge.connect();
      const response = await connection.send(formRequest(target, form)).response();
      expectProblem(response, reason);
      expect(edge.gateway.requests).toHaveLength(0);
      expect(response.headers['connection']).toBe(response.status === 400 ? 'close' : 'keep-alive');
      if (response.status === 400) expect(await connection.ended()).toBe('FIN');
      else expect(await nextIsServed(connection)).toBe(true);
    },
  );

  it('that is rejected is described without its content', async () => {
    const form = 'a=1&credit_card_number=4000056655665556%zz&cvv2=q9z7';
    const problem = expectProblem(await edge.send(formRequest(transfer, form)), 'malformed-form');
    expect(problem['detail']).toMatch(/^Parameter 2 /);
    expect(JSON.stringify(problem) + edge.logText()).not.toMatch(/4000056655665556|q9z7/);
  });

  it.each([
    ['names that objects reserve', '__proto__=a&constructor=b&__proto__=c'],
    ['order, repeated pairs, empty names and values', 'b=2&a=1&b=2&=x&y=&z'],
    ['plus signs, escaped and not', 'a+b=c+d&e=%2B'],
    ['line feeds and NUL', 'a=%0D%0A%00'],
    ['characters beyond the basic plane', `balance-name=${'%F0%9F%98%80'.repeat(128)}`],
    ['a thousand parameters', manyOf(1000)],
    ['names that only look like OAuth', 'oauth=y&xoauth_a=z&oauth-nonce=x'],
  ])('reaches the gateway unchanged: %s', async (_, form) => {
    expect((await edge.send(formRequest(balance, form))).status).toBe(200);
    const verified = verifyAuthorization(receivedFrom(received()), controlKey);
    expect(verified.form).toEqual([...new URLSearchParams(form)]);
  });
});

describe('a form that is signed by a control', () => {
  const sha1 = (text: string): string => createHash('sha1').update(text).digest('hex');
  const path = '/sandbox/gw/api/v2/return/1234';
  const header = { 'Countersign-Login': 'acme' };

  it.each([
    [
      'with the login and the control',
      'client_orderid=a%26b&orderid=17&amount=10.42&currency=EUR&comment=late+%C3%A9',
      'login=acme&client_orderid=a%26b&orderid=17&amount=10.42&currency=EUR&comment=late%20%C3%A9',
      'acmea&b171042EUR',
    ],
    [
      'of the whole amount',
      'client_orderid=1&orderid=17',
      'login=acme&client_orderid=1&orderid=17',
      'acme117',
    ],
  ])('is sent %s, and without an OAuth header', async (_, form, sent, text) => {
    const response = await edge.post(path, form, header);
    expect([response.status, response.headers['countersign-outcome']]).toEqual([200, 'answered']);
    expect(String(received().body)).toBe(`${sent}&control=${sha1(text + testControlKey)}`);
    expect(received().headers).toMatchObject({ 'content-type': 'application/x-www-form-urlencoded' });
    expect(received().headers.authorization).toBeUndefined();
  });

  it.each([
    ['the control of its own', 'client_orderid=1&orderid=17&control=abc', 'reserved-parameter'],
    ['too many decimals', 'client_orderid=1&orderid=17&amount=1.5&currency=JPY', 'parameter-invalid'],
    ['another login than the header', 'login=other&client_orderid=1&orderid=17', 'login-conflict'],
  ] as const)('is not sent with %s', async (_, form, reason) => {
    expectProblem(await edge.send(formRequest(path, form, ['Countersign-Login: acme'])), reason);
    expect(edge.gateway.requests).toEqual([]);
  });
});

describe('a path', () => {
  const target = '/gw/api/v2/get-balance/manager/acme';

  it.each([
    ['an unknown environment', `/staging${target}`],
    ['__proto__ as the environment', `/__proto__${target}`],
    ['another product', '/sandbox/other/api/v2/get-balance/manager/acme'],
    ['an unknown operation', '/sandbox/gw/api/v4/refund/1234'],
    ['the root', '/'],
    ['a host behind two slashes', `//evil.test/sandbox${target}`],
    ['/../', '/sandbox/../sandbox/gw/api/v2/get-balance/manager/acme'],
    ['more behind the end', `/sandbox${target}/more`],
    ['an escaped literal', '/sandbox/gw/api/v2/get%2Dbalance/manager/acme'],
    ['a status group without its id', '/sandbox/gw/api/v4/status/group'],
    ['a page of the admin port', '/metrics'],
  ])(
    'that is unknown gets the same response in all cases, and advice on its own text: %s',
    async (_, path) => {
      const problem = expectProblem(await edge.send(formRequest(path, statusForm)), 'unknown-route');
      const common =
        'Unknown path. Expected /{environment}/{product}/api/...; check the spelling of the environment, of the product and of the operation, and that operationsFile names your own operations.';
      const advice = pathAdvice(path);
      expect(problem['detail']).toBe(advice === undefined ? common : `${common} ${advice}`);
      expect(edge.gateway.requests).toHaveLength(0);
    },
  );

  it.each(['1234#frag', '..', '', '1234%3Fa'])('with the endpoint "%s" is rejected', async (endpoint) => {
    const path = `/sandbox/gw/api/v4/status/${endpoint}`;
    expectProblem(await edge.send(formRequest(path, statusForm)), 'parameter-invalid');
    expect(edge.gateway.requests).toHaveLength(0);
  });

  it.each([
    ['order-status', '/gw/api/v4/status/1234', statusForm],
    ['order-status-group', '/gw/api/v4/status/group/7', statusForm],
    ['manager-balance', target, ''],
    ['transfer', '/gw/api/v4/transfer/1234', 'client_orderid=1', '/gw/api/v4/transfer/%31%32%33%34'],
    ['pan-eligibility-send', '/gw/api/v2/pan-eligibility/send/1234', 'client-order-id=1'],
    ['cancel', '/gw/api/v4/transfer/1234/cancel', 'login=acme'],
  ])(
    'is the operation %s, and rewritten from its values',
    async (operation, path, form, ...[sent = path]) => {
      const response = await edge.send(formRequest(`/sandbox${sent}`, form));
      expect([response.status, received().target]).toEqual([200, path]);
      const line = { operation, environment: 'sandbox', login: 'acme' };
      expect(await edge.lineOf(response)).toMatchObject(line);
    },
  );
});
