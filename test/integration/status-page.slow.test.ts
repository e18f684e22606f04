import { afterEach, describe, expect } from '@jest/globals';
import { overflow, type RecordedPage, schemes, textOf, view, violations } from '../support/browser.ts';
import { chromiumTests } from '../support/chromium.ts';
import { always, httpResponse, silent } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import { describeWith } from '../support/requires.ts';
import { nextKeys, oldKeys, type Rotating, startRotating, untilKeysChange } from '../support/rotating.ts';
import type { TestProxy } from '../support/service.ts';
import { noon } from '../support/simulator.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const { itInChromium, open } = chromiumTests();
const starts = harness();
let opened: RecordedPage | undefined;

afterEach(() => opened?.page.close());

/** Opens the page, which does not update itself, and checks what must hold for it in every situation. */
async function look({ adminUrl }: TestProxy): Promise<(section: string) => Promise<string>> {
  const url = `${adminUrl}/?refresh=off`;
  opened = await open(url);
  const { page, errors, requests } = opened;
  for (const scheme of schemes) {
    for (const width of [360, 1280, 1920]) {
      await view(page, scheme, width);
      expect({ scheme, width, wider: await overflow(page) }).toEqual({ scheme, width, wider: 0 });
    }
    await view(page, scheme, 1280);
    expect(await violations(page)).toEqual([]);
  }
  expect(errors).toEqual([]);
  expect(requests).toEqual([url]);
  return (section) => textOf(page, `#${section}`);
}

async function again(): Promise<void> {
  await opened?.page.reload();
}

describe('the status page in Chromium', () => {
  itInChromium('is calm without trouble', async () => {
    const { proxy } = await starts.pair([always(httpResponse('200 OK', '[]'))]);
    await Promise.all([proxy.balance(), proxy.status(), proxy.transfer()]);
    await proxy.requestLines(3);
    const text = await look(proxy);
    expect(await text('health')).toBe('Ready This instance receives requests. Nothing needs attention.');
    expect(await text('environments')).toMatch(/sandbox 127\.0\.0\.1:\d+ 0 of 500/);
    expect(await text('callers')).toMatch(/local 3 0 (just now|\d+ s ago)/);
    expect(await text('failures')).toContain('No request has failed since the start.');
    expect(await text('certificates')).toContain('No certificates are configured');
    expect(await text('key-source')).toContain('Key directory State Up');
    expect(await text('instance')).toMatch(/Version 0\.1\.0 Node\.js v\d+/);
  });

  itInChromium('shows many rejections with their causes', async () => {
    const { proxy } = await starts.pair([always(httpResponse('403 Forbidden', 'no'))]);
    await Promise.all(Array.from({ length: 20 }, () => proxy.balance()));
    await proxy.requestLines(20);
    const text = await look(proxy);
    expect(await text('health')).toContain('Act now 100% of responses from sandbox are 401 or 403.');
    expect(await text('environments')).toContain('100%');
    expect(await opened?.page.$$('#failures tbody tr')).toHaveLength(20);
    const row = /current-key 403 answered local sandbox manager-balance acme [0-9a-f-]{36}/;
    expect(await text('failures')).toMatch(row);
  });

  itInChromium('shows that an environment is at its limit', async () => {
    const { gateway, proxy } = await starts.pair([silent], { sandbox: { maxInFlight: 2 } });
    const pending = [proxy.transfer(), proxy.transfer()];
    await until(() => gateway.requests().length === 2);
    expect((await proxy.transfer()).status).toBe(503);
    const text = await look(proxy);
    expect(await text('health')).toContain(
      'Act now sandbox is at its limit, and 1 request got 503 in the last minute. 2 of 2 requests in flight',
    );
    expect(await text('environments')).toContain('2 of 2');
    expect(await text('failures')).toContain('overloaded 503 not-sent local sandbox transfer');
    await gateway.close();
    await Promise.all(pending);
  });
});

describe('a rotation, step by step on the page', () => {
  const secretOf = ({ controlKey, privateKey }: typeof oldKeys) => ({
    control_key: controlKey,
    private_key: privateKey,
  });

  async function start(): Promise<Rotating & { store: (keys: typeof oldKeys) => void }> {
    const { vault } = starts.closing(await new VaultTestEnvironment({ clock: () => noon }).open());
    const store = (keys: typeof oldKeys): void => vault.put('gateway/sandbox/acme', secretOf(keys));
    store(oldKeys);
    const keys = vaultKeys(vault.address, {}, { cache: { ttl: '1s' } });
    const rotating = await startRotating(starts, { config: { keys } });
    expect((await rotating.proxy.balance()).status).toBe(200);
    expect((await rotating.proxy.status()).status).toBe(200);
    return { ...rotating, store };
  }

  itInChromium('if Vault has the key first', async () => {
    const { proxy, store, accept, pass } = await start();
    const text = await look(proxy);
    expect(await text('keys')).toMatch(
      /acme sandbox Control key v1 v1 In use .*acme sandbox RSA key v1 v1 In use/,
    );
    store(nextKeys);
    pass(2_000);
    await untilKeysChange(proxy);
    await again();
    expect(await text('health')).toContain(
      'In progress Control key of acme in sandbox: version 2 is waiting',
    );
    expect(await text('keys')).toMatch(/RSA key v1 newest is v2 v2 Waiting for the gateway .* v1 In use/);
    accept(nextKeys);
    expect([await proxy.balance(), await proxy.status()]).toMatchObject([{ status: 200 }, { status: 200 }]);
    await again();
    const done = await text('keys');
    expect(done).toMatch(/RSA key v2 v2 In use .* v1 No longer accepted/);
    expect(done).not.toContain('Waiting');
  });

  itInChromium('if the gateway has the key first', async () => {
    const { proxy, store, accept, pass } = await start();
    accept(nextKeys);
    // A rejection just after an acceptance may be about its request.
    pass(10_000);
    expect((await proxy.transfer()).status).toBe(403);
    const text = await look(proxy);
    expect(await text('health')).toContain(
      'Act now RSA key of acme in sandbox: the gateway rejects version 1.',
    );
    expect(await text('keys')).toContain('v1 Rejected by the gateway');
    expect(await text('failures')).toContain('current-key 403 answered local sandbox transfer acme');
    store(nextKeys);
    pass(2_000);
    expect((await proxy.status()).status).toBe(200);
    await again();
    expect(await text('keys')).toMatch(/RSA key v2 v2 In use .* v1 No longer accepted/);
  });
});

itInChromium('the page shows that Vault is gone, and that cached keys sign', async () => {
  const { vault } = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  vault.put('gateway/sandbox/acme', { control_key: 'first' });
  const keys = vaultKeys(vault.address, { timeout: '500ms' }, { cache: { ttl: '50ms' } });
  const { proxy } = await starts.pair([always(httpResponse('200 OK', '[]'))], { config: { keys } });
  await proxy.balance();
  vault.sealed = true;
  await until(async () => {
    expect((await proxy.balance()).status).toBe(200);
    return (await proxy.instanceStatus()).keySource.state === 'down';
  });
  const text = await look(proxy);
  expect(await text('health')).toMatch(
    /Ready, not well .* Act now Vault unavailable for \d+ s: .*sealed.* Cached keys are still used/,
  );
  expect(await text('key-source')).toMatch(/Vault State Unavailable Down since/);
  expect(await text('keys')).toMatch(/Stale for \d+ s/);
});

describeWith('openssl')('a certificate (needs the program openssl)', () => {
  itInChromium('that expires soon is shown', async () => {
    const ca = new Ca(starts.folder().path, 'ca');
    const hour = 3_600_000;
    const from = Date.now() - 20 * hour;
    const { certFile, keyFile } = ca.issue('proxy', { from, until: Date.now() + 2.5 * hour });
    const proxy = await starts.proxy({ config: { proxy: { port: 0, tls: { certFile, keyFile } } } });
    const text = await look(proxy);
    expect(await text('health')).toContain('Act soon Certificate listener expires in 2 h. Renew it');
    expect(await text('certificates')).toMatch(/listener all .* 2 h Renew now/);
  });
});
