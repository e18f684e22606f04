import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import type { Status } from '../../src/observability/status/schema.ts';
import { always, httpResponse } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import type { TestProxy } from '../support/service.ts';
import { VaultAdmin } from '../support/stub-vault/admin.ts';
import { vaultKeys } from '../support/stub-vault/harness.ts';
import { vaultTargets } from '../support/stub-vault/real-vault.ts';
import { until } from '../support/until.ts';

const starts = harness();

const uncached = Array.from({ length: 20 }, (_, index) => `uncached-${index}`);
const query = (proxy: TestProxy, login: string) =>
  proxy.post(`/sandbox/gw/api/v2/get-balance/manager/${login}`);
const reads = (proxy: TestProxy) => proxy.counted('key_fetch_duration_seconds_count');
const stateOf = async (proxy: TestProxy): Promise<Status['keySource']['state']> =>
  (await proxy.instanceStatus()).keySource.state;

describe.each(vaultTargets(process.env).filter(({ open }) => open !== undefined))(
  'a policy of $name that no longer permits reading keys',
  ({ open }) => {
    async function start() {
      if (open === undefined) throw new TypeError('no server');
      const server = starts.closing(await open());
      const admin = new VaultAdmin(server.address, server.rootToken);
      const name = `countersign-${randomBytes(4).toString('hex')}`;
      await admin.enable('mounts', name, { type: 'kv', options: { version: '2' } });
      await admin.enable('auth', name, { type: 'approle' });
      const restore = (): Promise<void> => admin.policy(name, name, 'gateway');
      await restore();
      const roleId = await admin.role(name, 'proxy', { token_policies: [name], token_ttl: '1h' });
      const secretIdFile = starts.folder().file('secret-id', await admin.secretId(name, 'proxy'));
      const auth = { method: 'approle', mount: name, roleId, secretIdFile } as const;
      for (const login of ['acme', ...uncached])
        await admin.put(`gateway/sandbox/${login}`, { control_key: 'first' }, name);
      const keys = vaultKeys(server.address, { auth, mount: name }, { cache: { ttl: '50ms' } });
      const { proxy } = await starts.pair([always(httpResponse('200 OK', '[]'))], { config: { keys } });
      expect((await proxy.balance()).status).toBe(200);
      const lose = (): Promise<unknown> => admin.request('DELETE', `sys/policies/acl/${name}`);
      return { proxy, lose, restore };
    }

    /** Uses the cached login until its denial is known. */
    async function lost(proxy: TestProxy): Promise<void> {
      await until(async () => {
        expect((await proxy.balance()).status).toBe(200);
        return (await stateOf(proxy)) === 'denied';
      }, 'the denial is known');
    }

    it('is denied, not down, in status, metrics and log; cached keys sign, and the instance is ready', async () => {
      const { proxy, lose } = await start();
      await lose();
      await lost(proxy);
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

    it('is read once a second for each login, however many requests are denied', async () => {
      const { proxy, lose } = await start();
      await lose();
      await lost(proxy);
      await Promise.all(uncached.map((login) => query(proxy, login)));
      const [before, startedAt] = [await reads(proxy), performance.now()];
      while (performance.now() - startedAt < 3000) {
        const responses = await Promise.all(uncached.map((login) => query(proxy, login)));
        expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([503]));
        // Still hundreds of requests per second, and not all that the processor can make.
        await wait(30);
      }
      expect((await reads(proxy)) - before).toBeLessThanOrEqual((3 + 1) * (uncached.length + 1));
    });

    it('and is restored, is in use within two seconds, for every login', async () => {
      const { proxy, lose, restore } = await start();
      await lose();
      await lost(proxy);
      await Promise.all(uncached.map((login) => query(proxy, login)));
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
  },
);
