import { setTimeout as wait } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import type { Status } from '../../src/observability/status/schema.ts';
import { always, httpResponse } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import type { TestProxy } from '../support/service.ts';
import { describeVaults } from '../support/stub-vault/describe-vaults.ts';
import { roleName, VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();

const uncached = Array.from({ length: 20 }, (_, index) => `uncached-${index}`);
const query = (proxy: TestProxy, login: string) =>
  proxy.post(`/sandbox/gw/api/v2/get-balance/manager/${login}`);
const queryUncached = (proxy: TestProxy) => Promise.all(uncached.map((login) => query(proxy, login)));
const reads = (proxy: TestProxy) => proxy.counted('key_fetch_duration_seconds_count');
const stateOf = async (proxy: TestProxy): Promise<Status['keySource']['state']> =>
  (await proxy.instanceStatus()).keySource.state;

describeVaults('a policy that no longer permits reading keys', (server) => {
  /** A proxy with the keys of one login, which knows that it may not read them any more. */
  async function start() {
    const setup = starts.closing(await new VaultTestEnvironment().open(server.admin));
    const { admin, roleId } = setup;
    for (const login of ['acme', ...uncached])
      await admin.put(`gateway/sandbox/${login}`, { control_key: 'first' });
    const secretIdFile = setup.folder.file('secret-id', await admin.secretId('approle', roleName));
    const auth = { method: 'approle', roleId, secretIdFile } as const;
    const keys = vaultKeys(admin.address, { auth }, { cache: { ttl: '50ms' } });
    const { proxy } = await starts.pair([always(httpResponse('200 OK', '[]'))], { config: { keys } });
    expect((await proxy.balance()).status).toBe(200);
    await admin.request('DELETE', `sys/policies/acl/${roleName}`);
    await until(async () => {
      expect((await proxy.balance()).status).toBe(200);
      return (await stateOf(proxy)) === 'denied';
    }, 'the denial is known');
    return { proxy, restore: () => admin.policy(roleName) };
  }

  it('is denied, not down, in status, metrics and log; cached keys sign, and the instance is ready', async () => {
    const { proxy } = await start();
    expect((await query(proxy, 'uncached-0')).status).toBe(503);
    const { keySource, findings, well, health } = await proxy.instanceStatus();
    const problem = 'Vault denied permission (HTTP 403)';
    expect(keySource).toMatchObject({ state: 'denied', deniedLogins: 2, problem });
    expect(findings.map(({ code }) => code)).toContain('key-source-denied');
    expect(findings.map(({ code }) => code)).not.toContain('key-source-down');
    expect([well, health.ready]).toEqual([false, true]);
    expect(await proxy.counted('key_source_up')).toBe(1);
    expect(await proxy.counted('key_source_denied_logins')).toBe(2);
    const line = { level: 'error', cause: problem, seconds: 0 };
    expect(proxy.logLines('key source denies reading keys')).toEqual([expect.objectContaining(line)]);
    expect(proxy.logLines('key source unavailable')).toEqual([]);
    await until(async () => (await proxy.counted('cached_keys_remaining_seconds')) > 0, 'it is counted');
    expect(await proxy.counted('cached_keys_remaining_seconds')).toBeLessThan(12 * 3600);
    await proxy.reload({ keys: { source: 'directory', directory: proxy.keysFolder } });
    expect(await proxy.counted('key_source_denied_logins')).toBe(0);
    expect((await proxy.instanceStatus()).keySource.deniedLogins).toBe(0);
  });

  it('is asked once a second for each login, and in use for all within two seconds of its restoration', async () => {
    const { proxy, restore } = await start();
    await queryUncached(proxy);
    const [before, startedAt] = [await reads(proxy), performance.now()];
    while (performance.now() - startedAt < 2000) {
      const responses = await queryUncached(proxy);
      expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([503]));
      // Still hundreds of requests per second, and not all that the processor can make.
      await wait(30);
    }
    const seconds = (performance.now() - startedAt) / 1000;
    expect((await reads(proxy)) - before).toBeLessThanOrEqual((seconds + 1) * (uncached.length + 1));
    await restore();
    const restoredAt = performance.now();
    const pending = new Set(uncached);
    while (pending.size > 0 && performance.now() - restoredAt < 5000) {
      for (const login of pending) if ((await query(proxy, login)).status === 200) pending.delete(login);
    }
    // Two seconds, and as much for a busy machine.
    expect(performance.now() - restoredAt).toBeLessThan(4000);
    await until(async () => (await stateOf(proxy)) === 'up', 'the state is up');
    expect(await proxy.counted('key_source_denied_logins')).toBe(0);
    expect(proxy.logLines('key source permits reading keys again')).toHaveLength(1);
    await until(
      async () => (await proxy.metric('cached_keys_remaining_seconds')) === undefined,
      'none is stale',
    );
  });
});
