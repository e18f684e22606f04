import { createHash, createPublicKey } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { packageVersion } from '../../src/service/package-info.ts';
import { always, httpResponse, type RawRequest } from '../support/faulty-gateway.ts';
import { paths, statusForm, transferForm } from '../support/forwarding.ts';
import { harness, type Pair } from '../support/harness.ts';
import { formRequest } from '../support/raw-http.ts';
import { testControlKey, testPrivateKey } from '../support/service.ts';
import { receivedFromRaw, verifyAuthorization } from '../support/verify.ts';

const starts = harness();

const publicKey = { publicKey: createPublicKey(testPrivateKey) };

const approves = always(httpResponse('200 OK', 'status=approved\n'));
const startPair = (): Promise<Pair> => starts.pair([approves]);

function headerOf(request: RawRequest | undefined, name: string): string | undefined {
  return request?.headers.find(([given]) => given === name)?.[1];
}

/** The only headers that may be sent, for a request with this Connection header. */
function expectOwnHeaders(request: RawRequest | undefined, host: string, connection: string): void {
  expect(request?.headers.map(([name]) => name)).toEqual([
    'Host',
    'Content-Type',
    'Content-Length',
    'Authorization',
    'Accept',
    'Accept-Encoding',
    'User-Agent',
    'Connection',
  ]);
  expect(Object.fromEntries(request?.headers ?? [])).toMatchObject({
    Host: host,
    'Content-Type': 'application/x-www-form-urlencoded',
    'Content-Length': String(request?.body.length),
    Accept: '*/*',
    'Accept-Encoding': 'identity',
    'User-Agent': `countersign/${packageVersion()}`,
    Connection: connection,
  });
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
    ['on a dedicated connection', paths.transfer, transferForm, 'close'],
    ['on a pooled connection', paths.status, statusForm, 'keep-alive'],
  ])('%s', async (_what, path, form, connection) => {
    const { gateway, proxy } = await startPair();
    const response = await proxy.post(path, form, tricks);
    expect(response.status).toBe(200);
    const [request] = gateway.requests();
    expectOwnHeaders(request, new URL(gateway.url).host, connection);
    expect(gateway.received()).not.toMatch(/theirs|10\.0\.0\.1|dGhlaXJz/i);
  });

  it.each(['close', 'keep-alive', 'Host, Authorization, Content-Length', 'upgrade', 'X-Forwarded-For'])(
    'whatever names are in "Connection: %s"',
    async (connection) => {
      const { gateway, proxy } = await startPair();
      await proxy.post(paths.transfer, transferForm, { Connection: connection });
      expectOwnHeaders(gateway.requests()[0], new URL(gateway.url).host, 'close');
    },
  );

  it('with "Expect: 100-continue": the request is signed like every other', async () => {
    const { gateway, proxy } = await startPair();
    const lines = Object.entries(tricks).map(([name, value]) => `${name}: ${value}`);
    const length = `Content-Length: ${transferForm.length}`;
    const connection = await proxy.connect();
    connection.send(formRequest(paths.transfer, '', [length, ...lines, 'Expect: 100-continue']));
    expect(await connection.response()).toMatchObject({ status: 100 });
    expect(await connection.send(transferForm).response()).toMatchObject({ status: 200 });
    connection.close();
    const [request] = gateway.requests();
    expectOwnHeaders(request, new URL(gateway.url).host, 'close');
    expect(request?.line).toBe('POST /gw/api/v4/transfer/1234 HTTP/1.1');
    verifyAuthorization(receivedFromRaw(request), publicKey);
  });

  it('sent in chunks: the upstream request has its length, once', async () => {
    const { gateway, proxy } = await startPair();
    const chunks = ['client_orderid=', 'invoice-7', '&amount=1'];
    const body = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('');
    const lines = ['Transfer-Encoding: chunked', 'Trailer: Authorization'];
    await proxy.send(formRequest(paths.transfer, `${body}0\r\nAuthorization: theirs\r\n\r\n`, lines));
    expectOwnHeaders(gateway.requests()[0], new URL(gateway.url).host, 'close');
    expect(gateway.received()).not.toContain('theirs');
  });

  it('including the bearer token, which only the proxy may see', async () => {
    const token = 'token-of-billing';
    const { gateway, proxy } = await starts.pair([approves], {
      config: {
        callers: [
          {
            name: 'billing',
            credentials: [{ tokenSha256: createHash('sha256').update(token).digest('hex') }],
            allow: [{ environments: ['sandbox'], operations: ['*'], logins: ['acme'] }],
          },
        ],
      },
    });
    const response = await proxy.post(paths.transfer, transferForm, {
      Authorization: `Bearer ${token}`,
    });
    expect(response.status).toBe(200);
    expect(gateway.received()).not.toContain(token);
    expect(gateway.received()).not.toContain('Bearer');
  });
});

describe('the signed URL is the one that the gateway sees', () => {
  const balance = { controlKey: testControlKey };

  it.each([
    ['with another port', (url: string) => url, (port: number) => `127.0.0.1:${port}`, ''],
    [
      'under a base path',
      (url: string) => `${url}/paynet/v1`,
      (port: number) => `127.0.0.1:${port}`,
      '/paynet/v1',
    ],
    [
      'under a base path that ends in a slash',
      (url: string) => `${url}/paynet/`,
      (port: number) => `127.0.0.1:${port}`,
      '/paynet',
    ],
    [
      'under a host in upper case',
      (url: string) => url.replace('127.0.0.1', 'LOCALHOST'),
      (port: number) => `localhost:${port}`,
      '',
    ],
  ])('%s', async (_what, change, host, basePath) => {
    const gateway = await starts.gateway([approves]);
    const proxy = await starts.proxy({ gateway: change(gateway.url) });
    expect(await proxy.post(paths.balance, 'balance-name=Main+EUR')).toMatchObject({
      status: 200,
    });
    const [request] = gateway.requests();
    const path = `${basePath}/gw/api/v2/get-balance/manager/acme`;
    expect(request?.line).toBe(`POST ${path} HTTP/1.1`);
    expect(headerOf(request, 'Host')).toBe(host(gateway.port));
    expect(verifyAuthorization(receivedFromRaw(request), balance).form).toEqual([
      ['balance-name', 'Main EUR'],
    ]);
  });
});
