import { expect, it } from '@jest/globals';
import { asAttacker, atPace, attacker, keepInFlight, pay, statuses, victim } from '../support/attackers.ts';
import { environmentFor } from '../support/config.ts';
import { harness } from '../support/harness.ts';
import { roleName, VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';

const starts = harness();

/** Both environments have logins whose keys do not leave Vault, which takes a while for each signature. */
async function startBoth(attackersEnvironments: readonly string[]) {
  const setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  await setup.admin.enable('mounts', 'transit', { type: 'transit' });
  await setup.admin.newTransitKey('shared');
  for (const login of ['sandbox/a', 'sandbox/b', 'production/c', 'production/d', 'production/shop'])
    await setup.admin.put(`gateway/${login}`, { transit_key: 'shared:1' });
  const gateway = await starts.recordingGateway();
  gateway.respond = (response) => response.end('type=async-response\n');
  const token = await setup.admin.token({ policies: [roleName], ttl: '1h' });
  const mounts = { sandbox: 'transit', production: 'transit' };
  const keys = vaultKeys(setup.vault.address, { auth: { method: 'token', token }, transit: { mounts } });
  const environment = environmentFor(gateway.url);
  const callers = [attacker(['*'], attackersEnvironments), victim];
  const environments = { sandbox: environment, production: { ...environment, endpoints: {} } };
  const proxy = await starts.proxy({ config: { keys, callers, environments } });
  setup.vault.fail({ kind: 'late', milliseconds: 300 }, /^transit\/sign/);
  return proxy;
}

it.each([
  ['of another environment', 'sandbox', ['a', 'b']],
  ['of the same environment', 'production', ['c', 'd']],
])('a caller %s with two logins takes no signature of a payment away', async (_, environment, logins) => {
  const proxy = await startBoth([environment]);
  const payFor = (login = '') => pay(proxy, '1', { login, environment, headers: asAttacker });
  const attack = keepInFlight(100, (nth) => payFor(logins[nth % 2]));
  const sent = await atPace(40, 50, () => pay(proxy, '1', { login: 'shop', environment: 'production' }));
  expect(await attack.stop()).toBeGreaterThan(100);
  expect(statuses(sent)).toEqual({ 200: 40 });
});
