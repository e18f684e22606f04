import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createAgent } from '../../../src/net/agent.ts';
import type { EgressProxySettings } from '../../../src/net/egress-proxy.ts';
import { closeServer, listen } from '../../../src/net/http.ts';
import { networkFailureOf } from '../../../src/net/network-failure.ts';
import { NoResponse, sendSmallRequest } from '../../../src/net/small-request.ts';
import { Secret } from '../../../src/secret.ts';
import { Folder } from '../../support/folder.ts';

const server = 'https://gateway.example:8443/';

let folder: Folder;
let proxy: Server;
let url: string;
/** What the proxy responds with; `undefined`: it ends the connection. */
let response: string | undefined;
let requests: (string | undefined)[][];

beforeEach(async () => {
  folder = new Folder();
  [response, requests] = ['HTTP/1.1 407 Proxy Authentication Required\r\n\r\n', []];
  proxy = createServer().on('connect', ({ url, headers }, socket: Socket) => {
    requests.push([url, headers.host, headers['proxy-authorization']]);
    if (response === undefined) socket.destroy();
    else socket.end(response);
  });
  url = await listen(proxy, { host: '127.0.0.1', port: 0 });
});
afterEach(async () => {
  await closeServer(proxy);
  folder.remove();
});

/** Why a request through the proxy failed: as in metrics, and as in the log. */
async function failure(settings: Partial<EgressProxySettings> = {}, address = server): Promise<string[]> {
  const agent = createAgent(address, {}, {}, { url, ...settings });
  const request = { method: 'GET', url: new URL(address), headers: {} };
  const way = { agent, timeout: 5_000, maxResponseBytes: 1 };
  const error: unknown = await sendSmallRequest(request, way).catch((reason: unknown) => reason);
  if (!(error instanceof NoResponse)) throw new Error('there was a response', { cause: error });
  return [networkFailureOf(error.cause), error.message];
}

it.each([
  ['HTTP/1.1 407 Proxy Authentication Required', 'proxy-credentials', 'status 407'],
  ['HTTP/1.1 401 Unauthorized', 'proxy-credentials', 'status 401'],
  ['HTTP/1.1 302 Found', 'proxy-denied', 'status 302'],
  ['HTTP/1.1 499 Closed', 'proxy-denied', 'status 499'],
  ['HTTP/1.1 500 Internal Server Error', 'proxy-failed', 'status 500'],
  ['HTTP/1.1 599 Timeout', 'proxy-failed', 'status 599'],
  ['HTTP/1.1 2000 OK', 'proxy-invalid', 'no HTTP response'],
  ['HTTP/1.1 1000 OK\r\n\r\nHTTP/1.1 200 OK', 'proxy-invalid', 'no HTTP response'],
  ['HTTP/1.1 600 Other', 'proxy-invalid', 'status 600'],
  ['HTTP/1.1 200 OK\r\n\r\nsurplus', 'proxy-invalid', 'bytes behind the response'],
  [
    'HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 102 \r\n\r\nHTTP/1.0 503 No',
    'proxy-failed',
    'status 503',
  ],
  [`HTTP/1.1 100 Continue\r\n\r\n${'x'.repeat(20_000)}`, 'proxy-invalid', 'no HTTP response'],
  ['SMTP', 'proxy-invalid', 'no HTTP response'],
  [undefined, 'proxy-unreachable', 'ECONNRESET'],
])('an egress proxy that responds with %j is %s', async (head, reason, note) => {
  response = head === undefined ? undefined : `${head}\r\n\r\n`;
  expect(await failure()).toEqual([reason, expect.stringMatching(new RegExp(`: ${note}`))]);
});

describe('the credentials for an egress proxy', () => {
  const sent = (): unknown => requests.map(([, , authorization]) => authorization);
  const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;

  it('are sent with the host and the port of the server, if there are any', async () => {
    await failure();
    await failure({ username: 'pay', password: new Secret('sécret') }, 'https://[2001:db8::1]/');
    expect(requests).toEqual([
      ['gateway.example:8443', 'gateway.example:8443', undefined],
      ['[2001:db8::1]:443', '[2001:db8::1]:443', basic('pay:sécret')],
    ]);
  });

  it('are read from a file, without the line break at its end', async () => {
    await failure({ username: 'pay', passwordFile: folder.file('password', '\ufefffirst\r\n') });
    expect(sent()).toEqual([basic('pay:first')]);
  });

  it.each([
    ['does not exist', () => folder.at('missing'), 'passwordFile does not exist'],
    ['cannot be read', () => `${folder.file('file', '')}/password`, 'passwordFile cannot be read (ENOTDIR)'],
    ['is empty', () => folder.file('password', '\n'), 'passwordFile is empty'],
    [
      'has a blank around the password',
      () => folder.file('password', ' first\n'),
      'passwordFile begins with a blank (U+0020); remove it',
    ],
    ['is none', () => folder.path, 'passwordFile cannot be read (no code)'],
  ])('are a reason of their own, without its path, if the file %s', async (_fault, file, problem) => {
    expect(await failure({ username: 'pay', passwordFile: file() })).toEqual([
      'proxy-credentials',
      `egress proxy did not accept the credentials: ${problem}`,
    ]);
    expect(requests).toEqual([]);
  });
});

it('an egress proxy, which could read them, gets no requests without TLS', () => {
  expect(() => createAgent('http://server.example', {}, {}, { url })).toThrow('requires an https: address');
});
