import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { pagePolicy } from '../../src/observability/status/page.ts';
import { tokenCredential } from '../support/config.ts';
import { harness } from '../support/harness.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';
import type { TestProxy } from '../support/service.ts';

const token = 'the-token-of-the-operators-0815';
const { tokenSha256 } = tokenCredential(token);
const pages = ['/', '/status.json'];
const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;

const starts = harness();
const start = (admin: object): Promise<TestProxy> =>
  starts.proxy({ config: { admin: { port: 0, ...admin } } });

const get = ({ adminUrl }: TestProxy, path: string, authorization?: string): Promise<Response> =>
  fetch(`${adminUrl}${path}`, authorization === undefined ? {} : { headers: { authorization } });

/** Without a token. */
async function expectOthersOpen(proxy: TestProxy): Promise<void> {
  for (const path of ['/metrics', '/healthz', '/readyz']) {
    const { status, headers } = await get(proxy, path);
    expect([path, status, headers.get('www-authenticate')]).toEqual([path, 200, null]);
  }
}

describe('the status, as a page and as JSON,', () => {
  it('is open on loopback without a token, but not to a POST, and not on the proxy port', async () => {
    const proxy = await start({});
    for (const path of pages) {
      expect((await get(proxy, path)).status).toBe(200);
      expect((await fetch(`${proxy.adminUrl}${path}`, { method: 'POST' })).status).toBe(405);
      expect((await fetch(`${proxy.url}${path}`)).status).toBe(405);
      expect((await proxy.send(formRequest(path))).status).toBe(404);
    }
  });

  it('is off beyond loopback without a token, and says how to turn it on', async () => {
    const proxy = await start({ host: '0.0.0.0' });
    for (const path of pages) {
      const response = await get(proxy, path, `Bearer ${token}`);
      expect([response.status, response.headers.get('www-authenticate')]).toEqual([404, null]);
      expect(await response.text()).toMatch(/^The status is off: .* Set .* "countersign callers token"/);
    }
    await expectOthersOpen(proxy);
  });

  it.each(['127.0.0.1', '0.0.0.0'])('needs the token on %s if there is one', async (host) => {
    const proxy = await start({ host, tokenSha256 });
    const right = [`Bearer ${token}`, basic(`operator:${token}`), basic(`:${token}`)];
    const wrong = [undefined, `Bearer ${token}x`, basic('operator:guess'), basic(token), 'Basic !'];
    for (const path of pages) {
      for (const authorization of right) expect((await get(proxy, path, authorization)).status).toBe(200);
      for (const authorization of wrong) {
        const response = await get(proxy, path, authorization);
        expect(response.status).toBe(401);
        expect(Object.fromEntries(response.headers)).toMatchObject({
          'www-authenticate': 'Bearer realm="Countersign status"',
          'cache-control': 'no-store',
        });
        expect(await response.text()).toMatch(/^The status needs the token .* Send "Authorization: Bearer /);
      }
    }
    await expectOthersOpen(proxy);
  });

  it('prompts for a password in a browser that opens it, not in the script that updates it', async () => {
    const { adminUrl } = await start({ tokenSha256 });
    const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
    const { status, headers } = await fetch(adminUrl, { headers: { accept } });
    expect(status).toBe(401);
    expect(headers.get('www-authenticate')).toBe('Basic realm="Countersign status", charset="UTF-8"');
  });

  it('is not served under the name of another site', async () => {
    const proxy = await start({ tokenSha256, allowedHosts: ['status.example'] });
    const statusUnder = async (host: string, path: string): Promise<number> => {
      const connection = await RawConnection.open(proxy.adminUrl);
      const head = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n\r\n`;
      const { status } = await connection.send(head).response();
      connection.close();
      return status;
    };
    for (const path of pages) {
      expect(await statusUnder('evil.example', path)).toBe(421);
      expect(await statusUnder('status.example', path)).toBe(200);
    }
  });
});

it('a connection of Prometheus stays open from one scrape to the next', async () => {
  const { adminUrl } = await start({ tokenSha256 });
  const connection = await RawConnection.open(adminUrl);
  const scrape = async () =>
    (await connection.send('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n').response()).status;
  expect(await scrape()).toBe(200);
  // Node closes a connection a second after the announced time.
  await wait(1_300);
  expect(await scrape()).toBe(200);
  connection.close();
});

describe('the token', () => {
  it('is that of the configuration after a reload', async () => {
    const proxy = await start({ tokenSha256 });
    await proxy.reload({ admin: { port: 0, ...tokenCredential('next-token') } });
    expect((await get(proxy, '/status.json', `Bearer ${token}`)).status).toBe(401);
    expect((await get(proxy, '/status.json', 'Bearer next-token')).status).toBe(200);
  });

  it('that is wrong is logged once a minute, without the token; a browser that has none is not', async () => {
    let now = 1e6;
    const proxy = await starts.proxy({
      config: { admin: { port: 0, tokenSha256 } },
      monotonic: () => now,
    });
    const lines = () => proxy.logLines('status requests with a wrong token');
    await get(proxy, '/');
    expect(lines()).toEqual([]);
    for (let guess = 0; guess < 20; guess += 1) await get(proxy, '/', `Bearer guess-${guess}`);
    now += 59_999;
    await get(proxy, '/', basic('x:guess'));
    expect(lines()).toMatchObject([{ level: 'warn', count: 1 }]);
    now += 1;
    await get(proxy, '/', basic('x:guess'));
    expect(lines()).toMatchObject([{ count: 1 }, { count: 21 }]);
    expect(proxy.logText()).not.toContain('guess');
  });
});

describe('the page', () => {
  it('may load nothing, be framed by nothing and is stored by nothing', async () => {
    const { headers } = await get(await start({}), '/');
    expect(Object.fromEntries(headers)).toMatchObject({
      'content-security-policy': pagePolicy,
      'cache-control': 'no-store',
      'content-type': 'text/html; charset=utf-8',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
    });
    expect(pagePolicy).not.toContain('unsafe');
  });

  it('reloads itself where there are no scripts, unless the query pauses it, of which it shows nothing', async () => {
    const proxy = await start({});
    const page = async (query: string): Promise<string> => (await get(proxy, `/${query}`)).text();
    const refresh = '<noscript><meta http-equiv="refresh"';
    for (const query of ['', '?', '?refresh=on', '?refresh=off&refresh=on'])
      expect(await page(query)).toContain(refresh);
    const paused = await page('?refresh=off&x=needle');
    for (const text of ['http-equiv', 'needle']) expect(paused).not.toContain(text);
  });
});
