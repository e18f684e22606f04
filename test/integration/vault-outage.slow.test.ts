import { setTimeout as wait } from 'node:timers/promises';
import { beforeEach, expect, it, jest } from '@jest/globals';
import { paths, verdict } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { Load } from '../support/load.ts';
import type { Fault } from '../support/stub-vault/faults.ts';
import { approleMount, VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { until } from '../support/until.ts';

// Seconds count here, and another program may take the processor for one.
jest.retryTimes(2, { logErrorsBeforeRetry: true, retryImmediately: true });

const starts = harness();
/** Seconds of an outage. */
const length = 2.5;
/** Milliseconds after the recovery within which a login without a cached key must be read: two seconds, and as much for a busy machine. */
const promised = 4000;
const cached = Array.from({ length: 10 }, (_, index) => `cached-${index}`);

let setup: VaultTestEnvironment;
let edge: Edge;

beforeEach(async () => {
  setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  const { admin, vault, roleId } = setup;
  await putAll();
  const secretIdFile = setup.folder.file('secret-id', await admin.secretId(approleMount, 'countersign'));
  const auth = { method: 'approle', roleId, secretIdFile } as const;
  const keys = vaultKeys(vault.address, { auth, timeout: '1s' }, { cache: { ttl: '1s' } });
  edge = await starts.edge({ config: { keys } });
  for (const login of cached) expect((await edge.post(balanceOf(login))).status).toBe(200);
  // A token that was valid within the last second is not suspected of being revoked.
  await wait(1100);
});

async function putAll(): Promise<void> {
  for (const login of [...cached, 'uncached'])
    setup.vault.put(`gateway/sandbox/${login}`, { control_key: 'k' });
}
const balanceOf = (login: string): string => paths.balance.replace('acme', login);

interface Outage {
  readonly name: string;
  readonly begin: () => unknown;
  readonly end: () => unknown;
  /** State in the status. */
  readonly state: 'up' | 'down';
  /** The result for a login without a cached key. */
  readonly uncached: string;
  /** The log lines of the beginning and the end, with the cause; how many of the first there are at most. */
  readonly lines?: readonly [begins: string, ends: string];
  readonly cause?: RegExp;
  readonly mostLines?: number;
}

const down = {
  state: 'down',
  uncached: '503 key-source-unavailable',
  lines: ['key source unavailable', 'key source available again'],
} as const;
const faulty = (name: string, fault: Fault, cause: RegExp): Outage => ({
  ...down,
  name,
  begin: () => setup.vault.fail(fault),
  end: () => setup.vault.heal(),
  cause,
});

let port = 0;
const outages: readonly Outage[] = [
  {
    ...down,
    name: 'killed',
    async begin() {
      ({ port } = setup.vault);
      await setup.vault.close();
    },
    end: () => setup.vault.listen(port),
    // A read that was in flight is reset.
    cause: /cannot be reached \((connection refused: ECONNREFUSED|ECONNRESET)\)/,
  },
  faulty('hung', { kind: 'black-hole' }, /did not respond in time/),
  faulty('sealed', { kind: 'status', status: 503 }, /is sealed \(HTTP 503\)/),
  faulty('rate-limited', { kind: 'status', status: 429 }, /rate-limited by Vault \(HTTP 429\)/),
  {
    name: 'token revoked',
    begin: () => setup.admin.revokeAll(approleMount),
    end() {},
    state: 'up',
    uncached: '200 answered',
  },
  {
    ...down,
    name: 'secret ID used up',
    async begin() {
      await setup.appRole('used up');
      await setup.admin.revokeAll(approleMount);
      // Up to a second until the revocation is noticed.
      await wait(2000);
    },
    end: () => setup.appRole(),
    cause: /rejected the credentials \(HTTP 400, approle\)/,
  },
  {
    name: 'mount re-created',
    async begin() {
      await setup.admin.request('DELETE', 'sys/mounts/secret');
      await setup.admin.enable('mounts', 'secret', { type: 'kv', options: { version: '2' } });
    },
    end: putAll,
    state: 'up',
    uncached: '502 key-missing',
    lines: [
      'login not found in the key source; its cached keys are used',
      'no login with cached keys is missing in the key source any more',
    ],
    // One for the first login, and whenever their number has doubled.
    mostLines: 4,
  },
];

it.each(outages)(
  'while Vault is $name, cached keys sign, and the recovery is noticed',
  async ({ name: _name, begin, end, state, uncached: expected, lines, cause, mostLines = 2 }) => {
    const request = (login: string) => ({ name: login, url: `${edge.url}${balanceOf(login)}`, form: '' });
    const reads = (): number => setup.vault.count(/^GET secret\/data/);
    const load = new Load(() => cached.map(request), 200);
    await wait(500);
    await begin();
    const [readsBefore, beganAt] = [reads(), performance.now()];
    const uncached = new Load(() => [request('uncached')], 100);
    await wait(length * 1000);
    const during = uncached.hits.map(({ result }) => result);
    const { keySource } = await edge.instanceStatus();
    const [readsAfter, seconds] = [reads(), (performance.now() - beganAt) / 1000];
    await end();
    const endedAt = performance.now();
    const isRead = () =>
      uncached.hits.some(({ result, sentAt }) => result === '200 answered' && sentAt > endedAt - 1000);
    await until(isRead, 'its keys are read');
    expect(performance.now() - endedAt).toBeLessThan(promised);
    await until(
      () => lines === undefined || edge.logLines(lines[1]).length > 0,
      'the log says that it is over',
    );
    for (const one of [load, uncached]) await one.end();

    expect(load.rate).toBeGreaterThan(25);
    expect(load.hits.filter(({ result }) => result !== '200 answered')).toEqual([]);
    expect(during.filter((result) => result !== expected)).toEqual([]);
    expect(keySource.state).toBe(state);
    if (lines !== undefined) {
      const begins = edge.logLines(lines[0]);
      expect(begins.length).toBeGreaterThan(0);
      expect(begins.length).toBeLessThanOrEqual(mostLines);
      expect(edge.logLines(lines[1])).toHaveLength(1);
      if (cause !== undefined)
        expect(begins.at(-1)).toMatchObject({ level: 'error', cause: expect.stringMatching(cause) });
    }
    // Those in flight at first, at most eight, and then one probe per second.
    if (state === 'down') expect(readsAfter - readsBefore).toBeLessThanOrEqual(8 + seconds);
  },
  60_000,
);

it('a Vault that is slower than the timeout of a gateway request does not delay requests', async () => {
  const vault = starts.closing(new StubVault());
  const address = await vault.listen();
  vault.fail({ kind: 'black-hole' });
  const proxy = await starts.proxy({
    sandbox: { timeouts: { connect: '500ms', request: '500ms' } },
    config: { keys: vaultKeys(address, { timeout: '10s' }) },
  });
  const startedAt = performance.now();
  const response = await proxy.balance();
  expect(performance.now() - startedAt).toBeLessThan(5000);
  expect(verdict(response)).toBe('503 key-source-unavailable not-sent not-sent');
  expect(response.headers['retry-after']).toBe('5');
});
