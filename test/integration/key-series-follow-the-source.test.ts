import { beforeEach, describe, expect, it } from '@jest/globals';
import { redactedLogin } from '../../src/observability/login-redactor.ts';
import { closedUrl } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import type { TestProxy } from '../support/service.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const path = 'gateway/sandbox/acme';
const acme = { login: 'acme', kind: 'control_key' };

describe('without a request for the login', () => {
  const starts = harness();
  let setup: VaultTestEnvironment;
  let proxy: TestProxy;

  async function startWith(cache: object): Promise<void> {
    const keys = vaultKeys(setup.vault.address, {}, { cache });
    proxy = await starts.proxy({ gateway: closedUrl, config: { keys }, random: () => 0 });
  }

  const unusable = (): Promise<number> => proxy.counted('key_unusable_versions', acme);
  const hasSeries = async (): Promise<boolean> =>
    /countersign_key_\w+\{[^}]*login="acme"/.test(await proxy.metrics());

  beforeEach(async () => {
    setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  });

  it('a key that was fixed in Vault is no longer shown as unusable', async () => {
    await startWith({ ttl: '100ms' });
    await setup.admin.put(path, { control_key: '' });
    expect((await proxy.balance()).body).toContain('key-unusable');
    expect(await unusable()).toBe(1);
    await setup.admin.put(path, { control_key: 'fixed' });
    await until(async () => (await unusable()) === 0);
    expect(await proxy.counted('key_version', acme)).toBe(2);
    expect(await proxy.counted('key_signing_version', acme)).toBe(2);
  });

  it('keys that were deleted in Vault end their series, with a warning that names the login', async () => {
    await startWith({ ttl: '100ms' });
    await setup.admin.put(path, { control_key: 'first' });
    await proxy.balance();
    expect(await hasSeries()).toBe(true);
    await setup.admin.deleteVersions(path, [1]);
    await until(async () => !(await hasSeries()));
    expect(proxy.logLines('keys deleted in the key source')).toEqual([
      expect.objectContaining({ level: 'warn', environment: 'sandbox', login: 'acme' }),
    ]);
  });

  it('keys of a mount that was re-created sign until they are too old, which is one problem, however many', async () => {
    await startWith({ ttl: '100ms', staleIfError: '1h' });
    const logins = Array.from({ length: 5 }, (_, index) => `login-${index}`);
    for (const login of logins) await setup.admin.put(`gateway/sandbox/${login}`, { control_key: 'first' });
    const reasons = () =>
      Promise.all(
        logins.map(
          async (login) => (await proxy.post(`/sandbox/gw/api/v2/get-balance/manager/${login}`, '')).body,
        ),
      );
    const before = await reasons();
    await setup.admin.request('DELETE', 'sys/mounts/secret');
    await setup.admin.enable('mounts', 'secret', { type: 'kv', options: { version: '2' } });
    await until(async () => (await proxy.counted('key_logins_not_found')) === 5);
    expect(await reasons()).toEqual(before.map((body) => expect.stringContaining(reasonIn(body))));
    expect(before.map(reasonIn)).not.toContain('key-missing');
    const lines = proxy.logLines('login not found in the key source; its cached keys are used');
    expect(lines.map(({ level, logins: count }) => [level, count])).toEqual([
      ['error', 1],
      ['error', 2],
      ['error', 4],
    ]);
    for (const login of logins) await setup.admin.put(`gateway/sandbox/${login}`, { control_key: 'first' });
    await until(async () => {
      await reasons();
      return (await proxy.counted('key_logins_not_found')) === 0;
    });
    expect(proxy.logLines('no login with cached keys is missing in the key source any more')).toHaveLength(1);
  });

  it('a newer version without a key is an unusable version at once, and the older key signs', async () => {
    await startWith({ ttl: '100ms' });
    await setup.admin.put(path, { control_key: 'first' });
    const before = (await proxy.balance()).body;
    await setup.admin.put(path, { controlkey: 'misspelled' });
    await until(async () => (await unusable()) === 1);
    expect((await proxy.balance()).body).toContain(reasonIn(before));
    expect(
      proxy.logLines(
        'the secret has no field control_key but controlkey, which is not read; rename it (its fields: controlkey)',
      ),
    ).toEqual([expect.objectContaining({ level: 'error', login: 'acme', kind: 'control_key', version: 2 })]);
    await setup.admin.put(path, { control_key: 'second' });
    await until(async () => (await unusable()) === 0);
  });

  it('deleted keys of a login that looks like a card number log a warning without it', async () => {
    await startWith({ ttl: '100ms' });
    const card = '4111111111111111';
    await setup.admin.put(`gateway/sandbox/${card}`, { control_key: 'first' });
    expect((await proxy.post(`/sandbox/gw/api/v2/get-balance/manager/${card}`, '')).status).toBe(502);
    await setup.admin.deleteVersions(`gateway/sandbox/${card}`, [1]);
    await until(() => proxy.logLines('keys deleted in the key source').length === 1);
    expect(proxy.logLines('keys deleted in the key source')).toEqual([
      expect.objectContaining({ level: 'warn', login: redactedLogin }),
    ]);
    expect(proxy.logText()).not.toContain(card);
  });

  it('keys that no request uses end their series, without a warning', async () => {
    await startWith({ ttl: '100ms', staleIfError: '2s' });
    await setup.admin.put(path, { control_key: '' });
    await proxy.balance();
    expect(await unusable()).toBe(1);
    await until(async () => !(await hasSeries()));
    expect(proxy.logLines('keys removed from the cache')).toEqual([
      expect.objectContaining({ level: 'info', login: 'acme', cause: 'unused' }),
    ]);
  });

  it('keys of a source that a reload replaced end their series, those of the other one begin theirs', async () => {
    await startWith({});
    await setup.admin.put(path, { control_key: 'first' });
    await proxy.balance();
    expect(await proxy.counted('key_version', acme)).toBe(1);
    await proxy.reload({ keys: { source: 'directory', directory: proxy.keysFolder } });
    expect(await proxy.counted('key_version', { ...acme, kind: 'private_key' })).toBeGreaterThan(1);
    expect(proxy.logLines('keys removed from the cache')).toEqual([
      expect.objectContaining({ login: 'acme', cause: 'replaced' }),
    ]);
  });
});

function reasonIn(problem: string): string {
  return /"reason":"([^"]*)"/.exec(problem)?.[1] ?? 'none';
}
