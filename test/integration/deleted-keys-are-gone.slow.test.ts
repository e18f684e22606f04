import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { asAttacker, attacker, balancePath, keepInFlight, pay, victim } from '../support/attackers.ts';
import { environmentFor } from '../support/config.ts';
import { harness } from '../support/harness.ts';
import { oldKeys } from '../support/rotating.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';

const starts = harness();
const ttl = 2_000;
const secret = { control_key: oldKeys.controlKey, private_key: oldKeys.privateKey };

describe.each([
  ['the same environment', ['production'], ['production']],
  ['another environment', ['sandbox'], ['sandbox']],
  ['both environments', ['*'], ['sandbox', 'production']],
])('while a caller of %s keeps 40 queries for invented logins in flight', (_, granted, used) => {
  it('a key that is deleted in Vault signs for no longer than the TTL and a second', async () => {
    const setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
    const path = 'gateway/production/shop';
    setup.vault.put(path, secret);
    const gateway = await starts.recordingGateway();
    gateway.respond = (response) => response.end('type=async-response\n');
    const environments = {
      sandbox: environmentFor(gateway.url),
      production: { ...environmentFor(gateway.url), endpoints: {} },
    };
    const keys = vaultKeys(setup.vault.address, {}, { cache: { ttl: `${ttl}ms` } });
    const callers = [attacker(['*'], granted), victim];
    const proxy = await starts.proxy({ config: { keys, callers, environments } });
    const isPaid = async (): Promise<boolean> =>
      (await pay(proxy, '1', { login: 'shop', environment: 'production' })).status === 200;

    setup.vault.fail({ kind: 'late', milliseconds: 50 }, /^secret\/data/);
    expect(await isPaid()).toBe(true);
    const attack = keepInFlight(40, (nth) =>
      proxy.post(balancePath(`invented-${nth}`, used[nth % used.length]), '', asAttacker),
    );
    await wait(ttl);
    expect(await isPaid()).toBe(true);
    await setup.admin.deleteVersions(path, [1]);
    const deletedAt = performance.now();
    let lastPaid = deletedAt;
    while (performance.now() < deletedAt + ttl + 2_500) {
      const sentAt = performance.now();
      if (await isPaid()) lastPaid = sentAt;
      await wait(50);
    }
    expect(await attack.stop()).toBeGreaterThan(100);
    expect(lastPaid - deletedAt).toBeLessThan(ttl + 1_000);
  }, 30_000);
});
