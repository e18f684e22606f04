import { createServer } from 'node:http';
import { Agent } from 'node:https';
import { afterAll, describe, expect, it } from '@jest/globals';
import { chromiumTests } from '../support/chromium.ts';
import { everything, tokenCredential } from '../support/config.ts';
import { Processes } from '../support/demo.ts';
import { paths, post, transferForm, verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { listen } from '../support/listening.ts';
import { describeWith } from '../support/requires.ts';
import { Ca } from '../support/stub-vault/certificates.ts';

const starts = harness(afterAll);

const rejected = '403 web-page not-sent not-sent';
const misdirected = '421 unknown-host not-sent not-sent';
const fromWebPages = [
  { Origin: 'https://evil.example' },
  { Origin: '' },
  { Origin: 'http://127.0.0.1:8080', 'Sec-Fetch-Site': 'same-origin' },
  { 'Sec-Fetch-Site': 'same-site' },
];
const fromOthers = [{}, { 'Sec-Fetch-Site': 'none' }, { 'Sec-Fetch-Site': 'same-origin' }];

const billing = {
  name: 'billing',
  credentials: [{ certificateDns: 'billing.internal' }, tokenCredential('billing-token')],
  allow: [everything],
};
const local = { name: 'local', credentials: [{ anonymous: true as const }], allow: [everything] };
const configWith = (allowedHosts: string[] = []) => ({
  proxy: { port: 0, allowedHosts },
  callers: [{ ...billing, credentials: billing.credentials.slice(1) }, local],
});

describe('a request of an anonymous caller', () => {
  const edge = starts.sharedEdge({ config: configWith() });
  const send = (headers: Record<string, string>) => edge().post(paths.transfer, transferForm, headers);

  it.each([
    ...fromWebPages.map((headers) => [headers, rejected] as const),
    [{ Host: 'rebound.example:8080' }, misdirected],
    [{ Host: '127.0.0.1.example' }, misdirected],
    [{ Host: '[::1' }, misdirected],
  ])('is not sent with %j', async (headers, expected) => {
    const response = await send(headers);
    expect(verdict(response)).toBe(expected);
    expect(await edge().lineOf(response)).toMatchObject({ caller: 'local', peer: '127.0.0.1' });
    expect(edge().gateway.requests).toEqual([]);
  });

  it.each([...fromOthers, { Host: '10.1.2.3:8080' }, { Host: '[::1]:8080' }, { Host: 'LOCALHOST:1' }])(
    'is forwarded with %j',
    async (headers) => {
      expect((await send(headers)).status).toBe(200);
    },
  );

  it('may have another Host after a reload that allows it', async () => {
    expect(verdict(await send({ Host: 'signer:8080' }))).toBe(misdirected);
    await edge().reload(configWith(['Signer']));
    expect((await send({ Host: 'signer:8080' })).status).toBe(200);
    await edge().reload(configWith());
  });

  it('with a bearer token is that of its caller, which no browser can be made to send', async () => {
    const headers = { Authorization: 'Bearer billing-token', Origin: 'null', Host: 'signer' };
    expect((await send(headers)).status).toBe(200);
  });
});

describeWith('openssl')('a request with a client certificate', () => {
  it('from a web page is rejected, and may have any Host', async () => {
    const ca = new Ca(starts.folder().path, 'ca');
    const { certFile, keyFile } = ca.issue('server', { names: 'IP:127.0.0.1, DNS:signer' });
    const { cert, key } = ca.issue('client', { names: 'DNS:billing.internal' });
    const tls = { certFile, keyFile, clientCaFile: ca.file };
    const edge = await starts.edge({ config: { proxy: { port: 0, tls }, callers: [billing] } });
    const agent = new Agent({ ca: ca.cert, cert, key });
    const send = (headers: Record<string, string>) =>
      post(`${edge.url}${paths.transfer}`, transferForm, headers, { agent });
    for (const headers of fromWebPages) expect(verdict(await send(headers))).toBe(rejected);
    expect(edge.gateway.requests).toEqual([]);
    const token = { Origin: 'null', Authorization: 'Bearer billing-token' };
    for (const headers of [...fromOthers, { Host: 'signer' }, token])
      expect((await send(headers)).status).toBe(200);
  });
});

it('the demo in a container serves other containers under the name of its service', async () => {
  const processes = new Processes();
  starts.atEnd(() => processes.clear());
  const inContainer = ['--host', '0.0.0.0', '--allow-anonymous', '--admin-allowed-host', 'demo'];
  const { proxyUrl } = await processes.startDemo(inContainer);
  const url = `${proxyUrl.replace('0.0.0.0', '127.0.0.1')}${paths.transfer}`;
  expect((await post(url, transferForm, { Host: 'demo:8080' })).status).toBe(200);
  expect(verdict(await post(url, transferForm, { Host: 'other:8080' }))).toBe(misdirected);
});

describe('a page in Chromium', () => {
  const { itInChromium, open } = chromiumTests();

  itInChromium.each([
    [
      'a form',
      '<form method=post action=TARGET><input name=client_orderid value=stolen></form><script>document.forms[0].submit()</script>',
    ],
    [
      'fetch',
      `<script>fetch('TARGET', { method: 'POST', mode: 'no-cors', body: new URLSearchParams('client_orderid=stolen') })</script>`,
    ],
  ])('cannot post a transfer by %s', async (_, html) => {
    const edge = await starts.edge({ config: configWith() });
    const page = createServer((request, response) => {
      const content = request.url === '/' ? html.replace('TARGET', `${edge.url}${paths.transfer}`) : '';
      response.writeHead(200, { 'Content-Type': 'text/html' }).end(content);
    });
    const { port } = starts.closing(await listen(page));
    await open(`http://localhost:${port}/`);
    expect(await edge.requestLines(1)).toMatchObject([{ reason: 'web-page', status: 403 }]);
    expect(edge.gateway.requests).toEqual([]);
  });
});
