import type { ServerResponse } from 'node:http';
import { expect, it } from '@jest/globals';
import { atPace, balancePath, pay, statuses } from '../support/attackers.ts';
import { harness } from '../support/harness.ts';
import { accept, deny, startKeyedGateway } from '../support/keyed-gateway.ts';
import { nextKeys, oldKeys } from '../support/rotating.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();
/** Where the login may pay. */
const good = '1234';

/** All that counts as silence: test/unit/gateway/response.test.ts. */
it('a load balancer that responds to queries moves no payment to a key that waits', async () => {
  const setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  const putInVault = ({ controlKey, privateKey }: typeof oldKeys): void =>
    setup.vault.put('gateway/sandbox/acme', { control_key: controlKey, private_key: privateKey });
  putInVault(oldKeys);
  const gateway = await startKeyedGateway(starts, { old: oldKeys, next: nextKeys });
  const keys = vaultKeys(setup.vault.address, {}, { cache: { ttl: '100ms' } });
  const proxy = await starts.proxy({ gateway: gateway.url, config: { keys } });
  const asBalancer = (response: ServerResponse): void =>
    void response.writeHead(200, { 'Content-Type': 'text/html' }).end('<html>Maintenance</html>');

  expect((await pay(proxy, good)).status).toBe(200);
  putInVault(nextKeys);
  await until(() => proxy.logLines('keys updated').length > 1, 'both keys are known');
  for (const isEvery of [true, false]) {
    gateway.respond = ({ operation, endpoint, key }, response) => {
      if (operation !== 'transfer' && (isEvery || key === 'next')) return asBalancer(response);
      return key === 'old' && endpoint === good ? accept(response) : deny(response);
    };
    // What the current key signs is rejected at this endpoint, so the one that waits is tried.
    await proxy.post('/sandbox/gw/api/v4/status/other', 'login=acme&client_orderid=1');
    await proxy.post(balancePath('acme'));
    const before = gateway.requests.length;
    expect(statuses(await atPace(10, 10, () => pay(proxy, good)))).toEqual({ 200: 10 });
    expect(new Set(gateway.requests.slice(before).map(({ key }) => key))).toEqual(new Set(['old']));
  }
  expect(new Set(gateway.requests.map(({ key }) => key))).toEqual(new Set(['old', 'next']));
  const { keys: shown } = await proxy.instanceStatus();
  expect(shown.list.find(({ kind }) => kind === 'private_key')).toMatchObject({ signingVersion: 1 });
});
