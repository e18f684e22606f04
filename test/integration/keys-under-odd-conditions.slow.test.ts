import { setTimeout as wait } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import {
  asAttacker,
  atPace,
  attacker,
  balancePath,
  keepInFlight,
  pay,
  statuses,
  victim,
} from '../support/attackers.ts';
import { environmentFor } from '../support/config.ts';
import { harness } from '../support/harness.ts';
import { accept, deny, startKeyedGateway } from '../support/keyed-gateway.ts';
import { nextKeys, oldKeys } from '../support/rotating.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();
const ttl = 1_000;
const secretOf = ({ controlKey, privateKey }: typeof oldKeys) => ({
  control_key: controlKey,
  private_key: privateKey,
});

async function startAll(cache: object = { ttl: `${ttl}ms` }, sandbox: object = {}) {
  const setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  const gateway = await startKeyedGateway(starts, { old: oldKeys, next: nextKeys });
  const environments = {
    sandbox: { ...environmentFor(gateway.url), ...sandbox },
    production: { ...environmentFor(gateway.url), endpoints: {} },
  };
  const keys = vaultKeys(setup.vault.address, {}, { cache });
  const callers = [attacker(), victim];
  const proxy = await starts.proxy({ config: { keys, callers, environments } });
  const put = (path: string, keys = oldKeys): void => setup.vault.put(`gateway/${path}`, secretOf(keys));
  return {
    setup,
    gateway,
    proxy,
    put,
    reload: () => proxy.reload({ keys, callers, environments, signing: { concurrency: 2 } }),
  };
}

it('one path at which Vault fails keeps no deleted key of another login alive', async () => {
  const { setup, proxy, put } = await startAll();
  put('sandbox/acme');
  expect((await pay(proxy, '1')).status).toBe(200);
  setup.vault.fail({ kind: 'status', status: 500 }, /secret\/data\/gateway\/sandbox\/broken/);
  expect((await proxy.post(balancePath('broken'), '', asAttacker)).status).toBe(503);
  const attack = keepInFlight(5, () => proxy.post(balancePath('broken'), '', asAttacker));
  await setup.admin.deleteVersions('gateway/sandbox/acme', [1]);
  const deletedAt = performance.now();
  await until(async () => (await pay(proxy, '1')).status === 502, 'it signs no more', 8);
  await attack.stop();
  expect(performance.now() - deletedAt).toBeLessThan(ttl + 2_000);
}, 20_000);

it('one login in use that cannot be read any more keeps no deleted key of another login alive', async () => {
  const { setup, proxy, put } = await startAll();
  put('sandbox/acme');
  put('sandbox/broken');
  expect((await pay(proxy, '1')).status).toBe(200);
  expect((await proxy.post(balancePath('broken'), '', asAttacker)).status).toBe(200);
  setup.vault.fail({ kind: 'status', status: 500 }, /secret\/data\/gateway\/sandbox\/broken/);
  await wait(2_000);
  const attack = keepInFlight(5, () => proxy.post(balancePath('broken'), '', asAttacker));
  await setup.admin.deleteVersions('gateway/sandbox/acme', [1]);
  const deletedAt = performance.now();
  await until(async () => (await pay(proxy, '1')).status === 502, 'it signs no more', 8);
  await attack.stop();
  expect(performance.now() - deletedAt).toBeLessThan(ttl + 2_000);
}, 20_000);

it('payments at twelve endpoints in turn, and no queries, get through soon after a rotation', async () => {
  const { gateway, proxy, put } = await startAll();
  put('sandbox/acme');
  let accepted = 'old';
  gateway.respond = ({ key }, response) => (key === accepted ? accept(response) : deny(response));
  expect((await pay(proxy, '1')).status).toBe(200);
  put('sandbox/acme', nextKeys);
  accepted = 'next';
  const sent = await atPace(200, 30, (nth) => pay(proxy, String(100 + (nth % 12))));
  expect(statuses(sent)['403'] ?? 0).toBeLessThan(60);
}, 20_000);

it('keys that are deleted, and come back after a reload, sign again', async () => {
  const { setup, proxy, put, reload } = await startAll({ ttl: '1s', negativeTtl: '100ms' });
  put('sandbox/acme');
  expect((await pay(proxy, '1')).status).toBe(200);
  setup.vault.fail({ kind: 'late', milliseconds: 400 }, /^secret\/data/);
  await setup.admin.deleteVersions('gateway/sandbox/acme', [1]);
  const reads = (): number => setup.vault.count(/^GET secret\/data/);
  const before = reads();
  await until(() => reads() > before, 'it is read again');
  await wait(50);
  await reload();
  setup.vault.heal();
  await wait(300);
  put('sandbox/acme');
  await until(async () => (await pay(proxy, '1')).status === 200, 'it signs again', 5);
}, 20_000);

it('keys whose deletion is read while a reload takes place, and that come back at once, sign again', async () => {
  const { setup, proxy, put, reload } = await startAll({ ttl: '1s', negativeTtl: '100ms' });
  put('sandbox/acme');
  expect((await pay(proxy, '1')).status).toBe(200);
  setup.vault.fail({ kind: 'late', milliseconds: 400 }, /^secret\/data/);
  await setup.admin.deleteVersions('gateway/sandbox/acme', [1]);
  const reads = (): number => setup.vault.count(/^GET secret\/data/);
  const before = reads();
  await until(() => reads() > before, 'it is read again');
  await reload();
  await wait(430);
  setup.vault.heal();
  put('sandbox/acme');
  await until(async () => (await pay(proxy, '1')).status === 200, 'it signs again', 5);
}, 20_000);

it('hundreds of logins in use of another environment delay no deletion', async () => {
  const { setup, proxy, put } = await startAll();
  put('production/shop');
  for (let nth = 0; nth < 400; nth += 1) put(`sandbox/many-${nth}`);
  const isPaid = async () => (await pay(proxy, '1', { login: 'shop', environment: 'production' })).status;
  expect(await isPaid()).toBe(200);
  for (let from = 0; from < 400; from += 20)
    await Promise.all(
      Array.from({ length: 20 }, (_, nth) => proxy.post(balancePath(`many-${from + nth}`), '', asAttacker)),
    );
  setup.vault.fail({ kind: 'late', milliseconds: 200 }, /sandbox/);
  await wait(6_000);
  await setup.admin.deleteVersions('gateway/production/shop', [1]);
  const deletedAt = performance.now();
  await until(async () => (await isPaid()) === 502, 'it signs no more', 15);
  expect(performance.now() - deletedAt).toBeLessThan(ttl + 2_000);
}, 40_000);
