import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { stringify } from 'yaml';
import type { KeyStatus } from '../../src/observability/status/facts.ts';
import type { Status } from '../../src/observability/status/schema.ts';
import { configFor, everything, tokenCredential } from '../support/config.ts';
import { always, closedUrl, httpResponse, silent } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import { listen } from '../support/listening.ts';
import { alwaysLooking, nextKeys, startRotating, untilKeysChange } from '../support/rotating.ts';
import { testKeys } from '../support/service.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();
const ok = httpResponse('200 OK', '[]');

const sandboxOf = ({ environments }: Status) => environments.find(({ name }) => name === 'sandbox');
const milliseconds = (time: string | null | undefined): number => Date.parse(time ?? '');
/** The rows of a login, such as `control_key 2 waiting, 1 in-use; 1 signs`. */
function keysOf({ keys }: Status): string[] {
  const rowOf = ({ kind, versions, signingVersion }: KeyStatus): string => {
    const newest = versions[0]?.version ?? 0;
    const numberOf = (version: number): string => (version === newest ? 'newest' : 'older');
    const states = versions.map(({ version, state }) => `${numberOf(version)} ${state}`);
    return `${kind}: ${states.join(', ')}; ${numberOf(signingVersion ?? 0)} signs`;
  };
  return keys.list.map(rowOf);
}

it('the status is JSON that nothing stores, of a calm instance and its environment', async () => {
  const inTwentySeconds = new Date(Date.now() + 20_000).toUTCString();
  const { gateway, proxy } = await starts.pair([
    always(httpResponse('200 OK', '[]', [`Date: ${inTwentySeconds}`])),
  ]);
  await Promise.all([proxy.balance(), proxy.status(), proxy.transfer()]);
  await proxy.requestLines(3);
  const { headers } = await fetch(`${proxy.adminUrl}/status.json`);
  expect(Object.fromEntries(headers)).toMatchObject({
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
  });
  const status = await proxy.instanceStatus();
  expect(status).toMatchObject({
    runbookUrl: null,
    health: { ready: true, reasons: [], warnings: [] },
    keys: { total: 2 },
    callers: [{ name: 'local', requests: 3, denied: 0 }],
    failures: [],
    certificates: [],
    keySource: { type: 'directory', state: 'up', deniedLogins: 0, problem: null },
    process: { version: '0.2.0', node: process.version },
    config: { problem: null },
  });
  for (const time of [status.at, status.callers[0]?.lastSeenAt, status.keySource.since])
    expect(Math.abs(Date.now() - milliseconds(time))).toBeLessThan(60_000);
  expect(milliseconds(status.process.startedAt)).toBeLessThanOrEqual(milliseconds(status.at));
  const environment = sandboxOf(status);
  const host = new URL(gateway.url).host;
  expect(environment).toMatchObject({ gatewayHost: host, inFlight: 0, maxInFlight: 500, rejectedShare: 0 });
  expect(environment?.requestsPerSecond).toBeGreaterThan(0);
  expect(environment?.latency?.p50).toBeGreaterThan(0);
  expect(environment?.clockSkew).toBeGreaterThan(15);
});

it('an environment has the requests in flight', async () => {
  const { gateway, proxy } = await starts.pair([silent], { sandbox: { maxInFlight: 2 } });
  const pending = [proxy.transfer(), proxy.transfer()];
  await until(() => gateway.requests().length === 2);
  expect(sandboxOf(await proxy.instanceStatus())).toMatchObject({ inFlight: 2, maxInFlight: 2 });
  await gateway.close();
  await Promise.all(pending);
  await until(async () => sandboxOf(await proxy.instanceStatus())?.inFlight === 0);
});

it('callers and failed requests are counted, and a denied login is not shown', async () => {
  const callers = [
    { name: 'billing', credentials: [tokenCredential('billing-token')], allow: [everything] },
    { name: 'shop', credentials: [tokenCredential('shop-token')], allow: [{ ...everything, logins: ['x'] }] },
  ];
  const as = (name: string) => ({ Authorization: `Bearer ${name}-token` });
  const transfer = '/sandbox/gw/api/v4/transfer/1234';

  const { proxy } = await starts.pair([always(ok)], { config: { callers } });
  await proxy.post(transfer, 'client_orderid=1', as('billing'));
  await proxy.post('/sandbox/gw/api/v2/get-balance/manager/secret-login', '', as('shop'));
  await proxy.post(transfer, '', as('stranger'));
  await proxy.requestLines(3);
  const status = await proxy.instanceStatus();
  expect(status.callers).toMatchObject([
    { name: 'billing', requests: 1, denied: 0 },
    { name: 'shop', requests: 1, denied: 1 },
  ]);
  expect(status.failures.map(({ cause, caller, login }) => ({ cause, caller, login }))).toEqual([
    { cause: 'caller-unknown', caller: null, login: null },
    { cause: 'not-allowed', caller: 'shop', login: null },
  ]);
  expect(await proxy.statusPages()).not.toContain('secret-login');
});

describe('a rotation', () => {
  it('is seen step by step if the source has the key first', async () => {
    const { proxy, accept, putInSource } = await startRotating(starts);
    /** After a request with each key. */
    const expectBoth = async (states: string): Promise<void> => {
      await proxy.balance();
      await proxy.status();
      const expected = ['control_key', 'private_key'].map((kind) => `${kind}: ${states}`);
      expect(keysOf(await proxy.instanceStatus())).toEqual(expected);
    };
    await proxy.reload({ keys: alwaysLooking(proxy) });
    await expectBoth('newest in-use; newest signs');
    putInSource(nextKeys);
    await untilKeysChange(proxy, proxy.transfer);
    await expectBoth('newest waiting, older in-use; older signs');
    accept(nextKeys);
    await expectBoth('newest in-use, older rejected; newest signs');
  });

  it.each(['transfer', 'status'] as const)(
    'is seen step by step if the gateway has the key first, by each %s',
    async (operation) => {
      const { proxy, accept, putInSource, pass } = await startRotating(starts);
      const rsaKey = async () => keysOf(await proxy.instanceStatus()).at(-1);
      await proxy.reload({ keys: alwaysLooking(proxy) });
      await proxy.status();
      accept(nextKeys);
      // One rejection just after an acceptance may be about its request.
      pass(10_000);
      await proxy[operation]();
      expect(await rsaKey()).toBe('private_key: newest rejected; newest signs');
      putInSource(nextKeys);
      await untilKeysChange(proxy);
      await proxy[operation]();
      expect(await rsaKey()).toBe('private_key: newest in-use, older rejected; newest signs');
    },
  );
});

it('Vault that is down has the problem and the keys that are stale', async () => {
  const setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  await setup.admin.put('gateway/sandbox/acme', { control_key: 'first' });
  const vault: object = { auth: await setup.appRole(), timeout: '500ms' };
  const keys = vaultKeys(setup.vault.address, vault, { cache: { ttl: '50ms' } });
  const { proxy } = await starts.pair([always(ok)], { config: { keys } });
  await proxy.balance();
  const calm = (await proxy.instanceStatus()).keySource;
  expect(calm).toMatchObject({ type: 'vault', state: 'up', problem: null });
  setup.vault.sealed = true;
  await until(async () => {
    await proxy.balance();
    return (await proxy.instanceStatus()).keySource.state === 'down';
  });
  const { keySource, keys: cached } = await proxy.instanceStatus();
  expect(keySource.problem).toMatch(/sealed/);
  expect(milliseconds(keySource.since)).toBeGreaterThanOrEqual(milliseconds(calm.since));
  expect(milliseconds(cached.list[0]?.staleSince)).toBeGreaterThanOrEqual(
    milliseconds(keySource.since) - 5_000,
  );
  setup.vault.sealed = false;
  await until(async () => (await proxy.instanceStatus()).keySource.state === 'up');
});

describe('a reload', () => {
  it('to another key source has the keys of that one', async () => {
    const { gateway, proxy } = await starts.pair([always(ok)]);
    await proxy.balance();
    const keys = { acme: { controlKey: testKeys.controlKey } };
    const { keysFolder } = await starts.proxy({ gateway: gateway.url, keys });
    expect((await proxy.instanceStatus()).keys.total).toBe(2);
    await proxy.reload({ keys: { source: 'directory', directory: keysFolder } });
    const { keySource, keys: known } = await proxy.instanceStatus();
    expect(keySource.state).toBe('up');
    expect(known.list.map(({ login, kind }) => `${login} ${kind}`)).toEqual(['acme control_key']);
  });

  it('to another key source has nothing of what the one before does at its end', async () => {
    const hanging = starts.closing(await listen(createServer()));
    const proxy = await starts.proxy({ config: { keys: vaultKeys(`http://127.0.0.1:${hanging.port}`) } });
    const pending = proxy.balance();
    await wait(200);
    await proxy.reload({ keys: { source: 'directory', directory: proxy.keysFolder } });
    await pending;
    expect((await proxy.instanceStatus()).keySource).toMatchObject({
      type: 'directory',
      state: 'up',
      problem: null,
    });
  });

  it('has the digest that sha256sum prints for the file; an invalid file is not in effect', async () => {
    const process = await starts.process();
    const file = join(process.folder, 'config.yaml');
    const digestOf = () => hash('sha256', readFileSync(file));
    const first = await process.instanceStatus();
    expect(first.config).toMatchObject({ digest: digestOf(), problem: null });
    process.rewrite('environments: 1');
    process.signal('SIGHUP');
    await until(async () => (await process.instanceStatus()).config.problem !== null);
    const { config } = await process.instanceStatus();
    const problem = expect.stringMatching(/^configuration reload failed; .*config\.yaml:1: environments/);
    expect(config).toEqual({ ...first.config, problem });
    process.rewrite(`# another file\n${stringify(configFor(closedUrl))}`);
    process.signal('SIGHUP');
    await until(async () => (await process.instanceStatus()).config.digest === digestOf());
    await until(async () => (await process.instanceStatus()).config.problem === null);
    expect(milliseconds((await process.instanceStatus()).config.loadedAt)).toBeGreaterThan(
      milliseconds(first.config.loadedAt),
    );
  });
});
