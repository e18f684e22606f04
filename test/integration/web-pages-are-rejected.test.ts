import { createServer } from 'node:http';
import { Agent } from 'node:https';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { chromiumTests } from '../support/chromium.ts';
import { everything, tokenCredential } from '../support/config.ts';
import { Processes } from '../support/demo.ts';
import { paths, post, transferForm, verdict } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { listen } from '../support/listening.ts';
import { describeWith } from '../support/requires.ts';
import { Ca } from '../support/stub-vault/certificates.ts';

const starts = harness(afterAll);

const rejected = '403 web-page not-sent not-sent';
const misdirected = '421 unknown-host not-sent not-sent';
const fromWebPages = [
  { Origin: 'https://evil.example' },
  { Origin: 'null' },
  { Origin: '' },
  { Origin: 'http://127.0.0.1:8080', 'Sec-Fetch-Site': 'same-origin' },
  { 'Sec-Fetch-Site': 'cross-site' },
  { 'Sec-Fetch-Site': 'same-site' },
  { 'Sec-Fetch-Site': 'anything' },
];
const fromOthers = [{}, { 'Sec-Fetch-Site': 'none' }, { 'Sec-Fetch-Site': 'same-origin' }];

const callers = [
  { name: 'billing', credentials: [tokenCredential('billing-token')], allow: [everything] },
  { name: 'local', credentials: [{ anonymous: true as const }], allow: [everything] },
];
const configWith = (proxy: { allowedHosts?: string[] } = {}) => ({
  proxy: { port: 0, allowedHosts: [], ...proxy },
  callers,
});

describe('a request of an anonymous caller', () => {
  let edge: Edge;
  beforeAll(async () => {
    edge = await starts.edge({ config: configWith() });
  });
  const transfer = (headers: Record<string, string>) =>
    post(`${edge.url}${paths.transfer}`, transferForm, headers);

  it.each(fromWebPages)('from a web page is rejected: %j', async (headers) => {
    const before = edge.gateway.requests.length;
    expect(verdict(await transfer(headers))).toBe(rejected);
    expect(edge.gateway.requests).toHaveLength(before);
  });

  it.each(fromOthers)('from anything else is forwarded: %j', async (headers) => {
    expect((await transfer(headers)).status).toBe(200);
  });

  it.each(['rebound.example', 'rebound.example:8080', '127.0.0.1.example', 'localhost.example', '[::1'])(
    'with the Host "%s" is rejected',
    async (Host) => {
      const before = edge.gateway.requests.length;
      expect(verdict(await transfer({ Host }))).toBe(misdirected);
      expect(edge.gateway.requests).toHaveLength(before);
    },
  );

  it.each(['127.0.0.1', '10.1.2.3:8080', '[::1]:8080', 'localhost', 'LOCALHOST:1'])(
    'with the Host "%s" is forwarded',
    async (Host) => {
      expect((await transfer({ Host })).status).toBe(200);
    },
  );

  it('may have another Host after a reload that allows it', async () => {
    const changing = await starts.edge({ config: configWith() });
    const send = () => post(`${changing.url}${paths.balance}`, '', { Host: 'signer:8080' });
    expect((await send()).status).toBe(421);
    await changing.reload(configWith({ allowedHosts: ['Signer'] }));
    expect((await send()).status).toBe(200);
  });

  it('has the peer in the log line of its rejection', async () => {
    const own = await starts.edge({ config: configWith() });
    await post(`${own.url}${paths.balance}`, '', { Origin: 'https://evil.example' });
    expect(await own.requestLines(1)).toEqual([
      expect.objectContaining({ reason: 'web-page', caller: 'local', peer: '127.0.0.1' }),
    ]);
  });

  it('with a bearer token is that of its caller, which no browser can be made to send', async () => {
    const headers = { Authorization: 'Bearer billing-token', Origin: 'null', Host: 'signer' };
    expect((await transfer(headers)).status).toBe(200);
  });
});

describeWith('openssl')('a request with a client certificate', () => {
  it('from a web page is rejected, and may have any Host', async () => {
    const ca = new Ca(starts.folder().path, 'ca');
    const { certFile, keyFile } = ca.issue('server', { names: 'IP:127.0.0.1, DNS:signer' });
    const { cert, key } = ca.issue('client', { names: 'DNS:billing.internal' });
    const edge = await starts.edge({
      config: {
        proxy: { port: 0, allowedHosts: [], tls: { certFile, keyFile, clientCaFile: ca.file } },
        callers: [
          {
            name: 'billing',
            credentials: [{ certificateDns: 'billing.internal' }, tokenCredential('t')],
            allow: [everything],
          },
        ],
      },
    });
    const send = (headers: Record<string, string>) =>
      post(`${edge.url}${paths.transfer}`, transferForm, headers, {
        agent: new Agent({ ca: ca.cert, cert, key }),
      });
    for (const headers of fromWebPages) expect(verdict(await send(headers))).toBe(rejected);
    expect(edge.gateway.requests).toEqual([]);
    for (const headers of [...fromOthers, { Host: 'signer' }]) expect((await send(headers)).status).toBe(200);
    expect((await send({ Origin: 'null', Authorization: 'Bearer t' })).status).toBe(200);
  });
});

describe('the demo in a container', () => {
  const processes = new Processes();
  afterAll(() => processes.clear());

  it('serves other containers under the name of its service', async () => {
    const { proxyUrl } = await processes.startDemo([
      '--host',
      '0.0.0.0',
      '--allow-anonymous',
      '--admin-allowed-host',
      'demo',
    ]);
    const url = `${proxyUrl.replace('0.0.0.0', '127.0.0.1')}${paths.transfer}`;
    expect((await post(url, transferForm, { Host: 'demo:8080' })).status).toBe(200);
    expect(verdict(await post(url, transferForm, { Host: 'other:8080' }))).toBe(misdirected);
  });
});

describe('a page in Chromium', () => {
  const { itInChromium, open } = chromiumTests();
  const form = `<form method=post action=TARGET><input name=client_orderid value=stolen></form>`;

  itInChromium.each([
    ['a form', `${form}<script>document.forms[0].submit()</script>`],
    [
      'fetch',
      `<script>fetch('TARGET', { method: 'POST', mode: 'no-cors', body: new URLSearchParams('client_orderid=stolen') })</script>`,
    ],
    [
      'sendBeacon',
      `<script>navigator.sendBeacon('TARGET', new URLSearchParams('client_orderid=stolen'))</script>`,
    ],
  ])('cannot post a transfer by %s', async (_, html) => {
    const edge = await starts.edge({ config: configWith() });
    const page = createServer((request, response) => {
      const content = request.url === '/' ? html.replace('TARGET', `${edge.url}${paths.transfer}`) : '';
      response.writeHead(200, { 'Content-Type': 'text/html' }).end(content);
    });
    const { port, close } = await listen(page);
    try {
      await open(`http://localhost:${port}/`);
      expect(await edge.requestLines(1)).toEqual([
        expect.objectContaining({ reason: 'web-page', status: 403 }),
      ]);
      expect(edge.gateway.requests).toEqual([]);
    } finally {
      await close();
    }
  });
});
