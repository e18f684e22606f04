import { setTimeout as wait } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { asAttacker, attacker, balancePath, keepInFlight, pay, victim } from '../support/attackers.ts';
import { environmentFor } from '../support/config.ts';
import { harness } from '../support/harness.ts';
import { accept } from '../support/keyed-gateway.ts';
import { oldKeys } from '../support/rotating.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';

const starts = harness();
const ttl = 1_000;
let vault: VaultTestEnvironment['vault'];

it.each([
  [
    'queries for 40 invented logins of both environments',
    40,
    (nth: number) => `invented-${nth}`,
    () => vault.fail({ kind: 'late', milliseconds: 50 }, /^secret\/data/),
  ],
  [
    'queries of a login in use that Vault cannot read any more',
    5,
    () => 'broken',
    () => vault.fail({ kind: 'status', status: 500 }, /gateway\/sandbox\/broken/),
  ],
])(
  'a key that is deleted signs for the TTL and a second at most, whatever is in flight: %s',
  async (_, count, loginOf, fails) => {
    const setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
    const { admin } = setup;
    vault = setup.vault;
    for (const path of ['gateway/production/shop', 'gateway/sandbox/broken'])
      vault.put(path, { control_key: oldKeys.controlKey, private_key: oldKeys.privateKey });
    const gateway = await starts.recordingGateway();
    gateway.respond = accept;
    const environments = {
      sandbox: environmentFor(gateway.url),
      production: { ...environmentFor(gateway.url), endpoints: {} },
    };
    const keys = vaultKeys(vault.address, {}, { cache: { ttl: `${ttl}ms` } });
    const proxy = await starts.proxy({ config: { keys, callers: [attacker(), victim], environments } });
    const isPaid = async (): Promise<boolean> =>
      (await pay(proxy, '1', { login: 'shop', environment: 'production' })).status === 200;
    const queryOf = (login: string, environment: string) =>
      proxy.post(balancePath(login, environment), '', asAttacker);

    expect((await queryOf('broken', 'sandbox')).status).toBe(200);
    expect(await isPaid()).toBe(true);
    fails();
    const attack = keepInFlight(count, (nth) =>
      queryOf(loginOf(nth), nth % 2 === 0 ? 'sandbox' : 'production'),
    );
    await wait(ttl);
    expect(await isPaid()).toBe(true);
    await admin.deleteVersions('gateway/production/shop', [1]);
    const deletedAt = performance.now();
    let lastPaid = deletedAt;
    while (performance.now() < deletedAt + ttl + 1_500) {
      const sentAt = performance.now();
      if (await isPaid()) lastPaid = sentAt;
      await wait(50);
    }
    expect(await attack.stop()).toBeGreaterThan(100);
    expect(lastPaid - deletedAt).toBeLessThan(ttl + 1_000);
  },
  30_000,
);
