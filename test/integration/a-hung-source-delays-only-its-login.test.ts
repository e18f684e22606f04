import { setTimeout as wait } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { harness } from '../support/harness.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();

const balanceOf = (login: string): string => `/sandbox/gw/api/v2/get-balance/manager/${login}`;

/** Of the times, so that a busy machine does not count. */
const median = (requests: readonly Timed[]): number =>
  requests.map(({ took }) => took).toSorted((a, b) => a - b)[Math.floor(requests.length / 2)] ?? Number.NaN;

interface Timed {
  readonly status: number;
  /** Milliseconds. */
  readonly took: number;
}

it('Vault hangs and the gateway rejects the key of one login: the others do not notice it', async () => {
  const setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  const logins = ['rejected', ...Array.from({ length: 5 }, (_, index) => `healthy-${index}`)];
  for (const login of logins) await setup.admin.put(`gateway/sandbox/${login}`, { control_key: login });
  const gateway = await starts.recordingGateway();
  const rejected = new Set<string>();
  gateway.respond = (response, { headers }) => {
    const [, login = ''] = /oauth_consumer_key="([^"]+)"/.exec(headers.authorization ?? '') ?? [];
    response.writeHead(rejected.has(login) ? 403 : 200).end();
  };
  const timeout = '2s';
  const proxy = await starts.proxy({
    gateway: gateway.url,
    config: { keys: vaultKeys(setup.vault.address, { timeout }, { cache: { ttl: '100ms' } }) },
    // 40 requests per second that wait for the whole timeout would take all of them.
    sandbox: { maxInFlight: 40, timeouts: { request: '5s' } },
  });
  const send = async (login: string): Promise<Timed> => {
    const startedAt = performance.now();
    const { status } = await proxy.post(balanceOf(login));
    return { status, took: performance.now() - startedAt };
  };
  for (const login of logins) expect((await send(login)).status).toBe(200);

  setup.vault.fail({ kind: 'black-hole' });
  rejected.add('rejected');
  const ofRejected: Promise<Timed>[] = [];
  const ofUncached: Promise<Timed>[] = [];
  const ofHealthy: Promise<Timed>[] = [];
  for (let turn = 0; turn < 160; turn += 1) {
    ofRejected.push(send('rejected'));
    ofHealthy.push(send(`healthy-${turn % 5}`));
    if (turn % 2 === 0) ofUncached.push(send('uncached'));
    await wait(25);
  }

  const healthy = await Promise.all(ofHealthy);
  expect(healthy.filter(({ status }) => status !== 200)).toEqual([]);
  expect(median(healthy)).toBeLessThan(3_000);
  const forbidden = await Promise.all(ofRejected);
  expect(new Set(forbidden.map(({ status }) => status))).toEqual(new Set([403]));
  // Until the first failure is known, Vault's timeout; then one second.
  expect(median(forbidden.slice(-40))).toBeLessThan(4_000);
  const uncached = await Promise.all(ofUncached);
  expect(new Set(uncached.map(({ status }) => status))).toEqual(new Set([503]));

  setup.vault.heal();
  const healedAt = performance.now();
  await until(async () => (await send('uncached')).status !== 503, 'Vault is in use');
  expect(performance.now() - healedAt).toBeLessThan(10_000);
});
