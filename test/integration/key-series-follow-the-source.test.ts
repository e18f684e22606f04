import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { redactedLogin } from '../../src/observability/login-redactor.ts';
import { closedPort } from '../support/faulty-gateway.ts';
import { askBalance, counted, post, until } from '../support/forwarding.ts';
import { startProxy, type TestProxy } from '../support/service.ts';
import { VaultTestEnvironment } from '../support/stub-vault/harness.ts';
import { rootToken } from '../support/stub-vault/state.ts';

const path = 'gateway/sandbox/acme';
const acme = { login: 'acme', kind: 'control_key' };

describe('without a request for the login', () => {
  let setup: VaultTestEnvironment;
  let proxy: TestProxy;

  const keysOf = (cache: object) => ({
    source: 'vault' as const,
    vault: { address: setup.vault.address, auth: { method: 'token' as const, token: rootToken } },
    cache,
  });

  async function startWith(cache: object): Promise<void> {
    const gateway = `http://127.0.0.1:${closedPort}`;
    proxy = await startProxy({ gateway, config: { keys: keysOf(cache) }, random: () => 0 });
  }

  const unusable = (): Promise<number> => counted(proxy, 'key_unusable_versions', acme);
  const hasSeries = async (): Promise<boolean> =>
    /countersign_key_\w+\{[^}]*login="acme"/.test(await proxy.metrics());
  const logged = (message: string) => proxy.logLines().filter(({ msg }) => msg === message);

  beforeEach(async () => {
    setup = await new VaultTestEnvironment({ clock: Date.now }).open();
  });
  afterEach(async () => {
    await proxy.stop();
    await setup.close();
  });

  it('a key that was fixed in Vault is no longer shown as unusable', async () => {
    await startWith({ ttl: '100ms' });
    await setup.admin.put(path, { control_key: '' });
    expect((await askBalance(proxy)).body).toContain('key-unusable');
    expect(await unusable()).toBe(1);
    await setup.admin.put(path, { control_key: 'fixed' });
    await until(async () => (await unusable()) === 0);
    expect(await counted(proxy, 'key_version', acme)).toBe(2);
    expect(await counted(proxy, 'key_signing_version', acme)).toBe(2);
  });

  it('keys that were deleted in Vault end their series, with a warning that names the login', async () => {
    await startWith({ ttl: '100ms' });
    await setup.admin.put(path, { control_key: 'first' });
    await askBalance(proxy);
    expect(await hasSeries()).toBe(true);
    await setup.admin.deleteVersions(path, [1]);
    await until(async () => !(await hasSeries()));
    expect(logged('keys deleted in the key source')).toEqual([
      expect.objectContaining({ level: 'warn', environment: 'sandbox', login: 'acme' }),
    ]);
  });

  it('deleted keys of a login that looks like a card number log a warning without it', async () => {
    await startWith({ ttl: '100ms' });
    const card = '4111111111111111';
    await setup.admin.put(`gateway/sandbox/${card}`, { control_key: 'first' });
    expect((await post(`${proxy.url}/sandbox/gw/api/v2/get-balance/manager/${card}`, '')).status).toBe(502);
    await setup.admin.deleteVersions(`gateway/sandbox/${card}`, [1]);
    await until(() => logged('keys deleted in the key source').length === 1);
    expect(logged('keys deleted in the key source')).toEqual([
      expect.objectContaining({ level: 'warn', login: redactedLogin }),
    ]);
    expect(proxy.logText()).not.toContain(card);
  });

  it('keys that no request uses end their series, without a warning', async () => {
    await startWith({ ttl: '100ms', staleIfError: '2s' });
    await setup.admin.put(path, { control_key: '' });
    await askBalance(proxy);
    expect(await unusable()).toBe(1);
    await until(async () => !(await hasSeries()));
    expect(logged('keys removed from the cache')).toEqual([
      expect.objectContaining({ level: 'info', login: 'acme', cause: 'unused' }),
    ]);
  });

  it('keys of a source that a reload replaced end their series', async () => {
    await startWith({});
    await setup.admin.put(path, { control_key: 'first' });
    await askBalance(proxy);
    expect(await hasSeries()).toBe(true);
    await proxy.reload({ keys: { source: 'directory', directory: proxy.keysFolder } });
    expect(await hasSeries()).toBe(false);
  });
});
