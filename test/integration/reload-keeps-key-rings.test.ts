import { setTimeout as wait } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { environmentFor } from '../support/config.ts';
import { closedUrl } from '../support/faulty-gateway.ts';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import type { TestProxy } from '../support/service.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

/** The reason in a response for a login with a key: nothing listens at the gateway's address. */
const signed = 502;
const unavailable = 503;

const starts = harness();

let setup: VaultTestEnvironment;
let proxy: TestProxy;

const keysOf = (vault: object = {}) => ({ keys: vaultKeys(setup.vault.address, vault) });

beforeEach(async () => {
  setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  await setup.admin.put('gateway/sandbox/acme', { control_key: 'first' });
  proxy = await starts.proxy({ gateway: closedUrl, config: keysOf(), random: () => 0 });
  expect((await proxy.balance()).status).toBe(signed);
});

describe('a reload during a Vault outage', () => {
  beforeEach(() => {
    setup.vault.sealed = true;
  });

  it('with other changes applies them, and keeps the keys', async () => {
    const next = await starts.recordingGateway();
    await proxy.reload({ ...keysOf(), environments: { sandbox: environmentFor(next.url) } });
    expect((await proxy.balance()).status).toBe(200);
    expect(await proxy.counted('key_version', { login: 'acme' })).toBe(1);
  });

  it('with another login changes nothing, and says why', async () => {
    await expect(proxy.reload(keysOf({ auth: { method: 'token', token: 'another' } }))).rejects.toThrow(
      'the new key source cannot be used: Vault login failed: Vault is sealed (HTTP 503)',
    );
    expect((await proxy.balance()).status).toBe(signed);
    expect(proxy.logText()).not.toContain('another');
    // Vault is probed every second, by one reader.
    const reads = (): number => setup.vault.count(/secret\/data/);
    expect((await proxy.post(paths.balance.replace('acme', 'other'), '')).status).toBe(unavailable);
    const before = reads();
    await wait(2_500);
    expect(reads() - before).toBeLessThanOrEqual(3);
  });
});

describe('a reload with another key source', () => {
  it('that lacks a login in use changes nothing, and names it', async () => {
    await expect(proxy.reload(keysOf({ path: 'elsewhere/{environment}/{login}' }))).rejects.toThrow(
      'the keys of login "acme" in environment "sandbox", which are in use, cannot be read from the new source: there are none',
    );
    expect((await proxy.balance()).status).toBe(signed);
    expect(await proxy.counted('key_version', { login: 'acme' })).toBe(1);
  });

  it('revokes the Vault token of the one before after its last request; the same keys go on with it', async () => {
    const auth = await setup.appRole();
    const gateway = await starts.recordingGateway();
    await proxy.reload({ ...keysOf({ auth }), environments: { sandbox: environmentFor(gateway.url) } });
    const logins = () => setup.vault.count(/approle\/login/);
    const release = gateway.hold();
    const response = proxy.balance();
    await until(() => gateway.requests.length === 1);
    await proxy.reload(keysOf({ auth }));
    expect(logins()).toBe(1);
    await proxy.reload(keysOf());
    await wait(200);
    expect(setup.vault.world().tokens.count).toBe(1);
    release();
    expect((await response).status).toBe(200);
    await until(() => setup.vault.world().tokens.count === 0);
  });
});
