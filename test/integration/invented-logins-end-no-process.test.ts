import { expect, it } from '@jest/globals';
import { asAttacker, atPace, attacker, balancePath, pay, victim } from '../support/attackers.ts';
import { harness } from '../support/harness.ts';
import { accept, startKeyedGateway } from '../support/keyed-gateway.ts';
import { oldKeys } from '../support/rotating.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();
const secret = { control_key: oldKeys.controlKey, private_key: oldKeys.privateKey };

async function startAll(logins: readonly string[], vault: Parameters<typeof vaultKeys>[1] = {}) {
  const setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  for (const login of logins) setup.vault.put(`gateway/sandbox/${login}`, secret);
  const gateway = await startKeyedGateway(starts, { old: oldKeys });
  const start = () =>
    starts.process({
      gateway: gateway.url,
      config: { keys: vaultKeys(setup.vault.address, vault), callers: [attacker(['acme-*']), victim] },
      keys: {},
    });
  return { vault: setup.vault, gateway, start };
}

it('300 queries at once for logins that a caller invents: a payment in flight gets its response', async () => {
  const { vault, gateway, start } = await startAll(['shop']);
  const process = await start();
  expect((await pay(process, '1', { login: 'shop' })).status).toBe(200);
  gateway.respond = (_, response) => void setTimeout(() => accept(response), 2_000);
  const paying = pay(process, '1', { login: 'shop' });
  await until(() => gateway.requests.length === 2, 'the payment is in flight');
  vault.fail({ kind: 'late', milliseconds: 15 }, /^secret\/data/);
  const attack = Array.from({ length: 300 }, (_, nth) =>
    process.post(balancePath(`acme-${nth}`), '', asAttacker).then(
      ({ status }) => status,
      () => 0,
    ),
  );
  const answered = new Set(await Promise.all(attack));
  expect((await paying).status).toBe(200);
  // No key, or too many that wait for one.
  expect([...answered].filter((status) => status !== 502 && status !== 503)).toEqual([]);
  expect(await process.stop()).toBe(0);
});

it('a start while Vault hangs, with 200 requests a second over six logins: each gets a response', async () => {
  const logins = Array.from({ length: 6 }, (_, nth) => `acme-${nth}`);
  const { vault, start } = await startAll(logins, { timeout: '2s' });
  vault.fail({ kind: 'black-hole' });
  const process = await start();
  const sent = await atPace(600, 5, (nth) =>
    process.post(balancePath(`acme-${nth % 6}`)).then(
      ({ status }) => status,
      () => 0,
    ),
  );
  expect(new Set(sent)).toEqual(new Set([503]));
  vault.heal();
  await until(async () => (await process.post(balancePath('acme-0'))).status === 200, 'keys are read');
  expect(await process.stop()).toBe(0);
}, 20_000);
