import { setTimeout as wait } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { closedUrl } from '../support/faulty-gateway.ts';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import type { TestProxy } from '../support/service.ts';
import { approleMount, roleName, VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

/** The reason in a response for a login with a key: nothing listens at the gateway's address. */
const signed = 502;
const unavailable = 503;

const starts = harness();

describe('a reload during a Vault outage', () => {
  let setup: VaultTestEnvironment;
  let proxy: TestProxy;

  const keysOf = (vault: object = {}, more: object = {}) => ({
    keys: vaultKeys(setup.vault.address, vault, more),
  });

  beforeEach(async () => {
    setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
    await setup.admin.put('gateway/sandbox/acme', { control_key: 'first' });
    proxy = await starts.proxy({ gateway: closedUrl, config: keysOf(), random: () => 0 });
    expect((await proxy.balance()).status).toBe(signed);
    setup.vault.sealed = true;
  });

  it.each([
    ['the cache', () => keysOf({}, { cache: { ttl: '5s', staleIfError: '2h' } })],
    ['the grace period', () => keysOf({}, { rotationGracePeriod: '2h' })],
    ['the timeout', () => keysOf({ timeout: '1s' })],
    ['the login', () => keysOf({ auth: { method: 'token', token: 'another' } })],
  ])('with %s changed keeps the key rings', async (_what, config) => {
    await proxy.reload(config());
    expect((await proxy.balance()).status).toBe(signed);
    expect(await proxy.counted('key_version', { login: 'acme' })).toBe(1);
  });

  it('with a shorter staleIfError does not use a ring for longer', async () => {
    await proxy.reload(keysOf({}, { cache: { ttl: '0ms', staleIfError: '1ms' } }));
    expect((await proxy.balance()).status).toBe(unavailable);
  });

  it.each([
    ['another mount', { mount: 'elsewhere' }],
    ['another path', { path: 'elsewhere/{environment}/{login}' }],
    ['another namespace', { namespace: 'team' }],
  ])('with %s keeps none: the keys are different ones', async (_what, vault) => {
    await proxy.reload(keysOf(vault));
    expect((await proxy.balance()).status).toBe(unavailable);
  });

  it('with the cache changed stops the background work of the previous cache', async () => {
    const reads = (): number => setup.vault.count(/secret\/data/);
    expect((await proxy.post(paths.balance.replace('acme', 'other'), '')).status).toBe(unavailable);
    const before = reads();
    // A background probe of Vault would be another read.
    await until(() => reads() > before);
    await proxy.reload(keysOf({}, { cache: { ttl: '5s' } }));
    const after = reads();
    // Vault is probed every second.
    await wait(2_500);
    expect(reads()).toBe(after);
  });

  it('with another token uses that one', async () => {
    setup.vault.heal();
    const token = await setup.admin.token({ policies: [roleName], ttl: 3600 });
    await proxy.reload(keysOf({ auth: { method: 'token', token } }));
    setup.vault.seen.length = 0;
    expect((await proxy.post(paths.balance.replace('acme', 'other'), '')).status).toBe(502);
    const reads = setup.vault.seen.filter(({ target }) => target.startsWith('secret/data'));
    expect(reads.map(({ headers }) => headers['x-vault-token'])).toEqual([token]);
  });

  it('with the cache changed keeps the Vault token, with the login changed revokes the previous one', async () => {
    setup.vault.heal();
    const auth = await setup.appRole();
    await proxy.reload(keysOf({ auth }));
    const logins = () => setup.vault.count(/approle\/login/);
    await until(() => logins() === 1);
    await proxy.reload(keysOf({ auth }, { cache: { ttl: '5s' } }));
    expect(logins()).toBe(1);
    await proxy.reload(keysOf());
    await until(() => setup.vault.world().tokens.count === 0);
  });
});

it('a graceful shutdown revokes the Vault token', async () => {
  const setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  const secretId = await setup.admin.secretId(approleMount, roleName);
  const secretIdFile = setup.folder.file('secret-id', secretId);
  const auth = { method: 'approle' as const, roleId: setup.roleId, secretIdFile };
  const proxy = await starts.proxy({ config: { keys: vaultKeys(setup.vault.address, { auth }) } });
  await until(() => setup.vault.world().tokens.count === 1);
  await proxy.stop();
  expect(setup.vault.world().tokens.count).toBe(0);
});
