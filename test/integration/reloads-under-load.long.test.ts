import { createHook } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { Agent } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { type ConfigInput, environmentFor, everything } from '../support/config.ts';
import { paths, post } from '../support/forwarding.ts';
import { garbageCollector } from '../support/garbage.ts';
import { harness } from '../support/harness.ts';
import { printNumbers } from '../support/load.ts';
import type { RecordingGateway } from '../support/recording-gateway.ts';
import { type TestProxy, testKeys } from '../support/service.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

jest.setTimeout(180_000);

const starts = harness();
const collectGarbage = garbageCollector();
const clients = 8;
/** Milliseconds between two reloads. */
const pause = 10;
/** After so many reloads everything has been loaded and compiled. */
const warmUp = 50;

/** Timers that were started and have neither fired nor been cleared, also those that do not keep the process alive. */
const timers = new Set<number>();
const timerHook = createHook({
  init: (id, type) => void (type === 'Timeout' && timers.add(id)),
  destroy: (id) => void timers.delete(id),
});

let setup: VaultTestEnvironment;
let gateway: RecordingGateway;
let proxy: TestProxy;

/** By order: how often the gateway has accepted it. */
const accepted = new Map<string, number>();

beforeEach(async () => {
  accepted.clear();
  timerHook.enable();
  setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  const { controlKey, privateKey } = testKeys;
  await setup.admin.put('gateway/sandbox/acme', { control_key: controlKey, private_key: privateKey });
  gateway = await starts.recordingGateway();
  gateway.respond = (response, { body }) => {
    gateway.requests.length = 0;
    const order = new URLSearchParams(body.toString()).get('client_orderid');
    if (order !== null) accepted.set(order, (accepted.get(order) ?? 0) + 1);
    response.end('[]');
  };
  proxy = await starts.proxy({ gateway: gateway.url, config: configOf(0), logLevel: 'error' });
});
afterEach(() => void timerHook.disable());

/** Each differs from the one before it. @param keys fields of `keys` */
function configOf(count: number, keys: object = {}): Partial<ConfigInput> {
  const allow = [
    everything,
    { environments: ['sandbox'], operations: ['*'], logins: [`login-${count % 9}`] },
  ];
  const timeouts = { shutdownDelay: '0s', headers: `${10 + (count % 7)}s` };
  return {
    proxy: { port: 0, timeouts, maxConnections: 100 + (count % 5) },
    environments: { sandbox: { ...environmentFor(gateway.url), maxInFlight: 50 + (count % 3) } },
    callers: [{ name: 'local', credentials: [{ anonymous: true }], allow }],
    keys: vaultKeys(setup.vault.address, {}, keys),
  };
}

/** Payments and queries, one after the other on each connection; half of the clients open a new one for each. */
function startLoad() {
  const [failures, sent]: [string[], Record<'transfer' | 'balance', number>] = [
    [],
    { transfer: 0, balance: 0 },
  ];
  const stopping = new AbortController();
  const agents = Array.from({ length: clients }, () => new Agent({ keepAlive: true }));
  const running = agents.map(async (agent, index) => {
    const options = index % 2 === 0 ? { agent } : {};
    while (!stopping.signal.aborted) {
      const kind = sent.transfer > sent.balance ? 'balance' : 'transfer';
      sent[kind] += 1;
      const form = kind === 'transfer' ? `client_orderid=${randomUUID()}&amount=1.00&currency=EUR` : '';
      const failure = await post(`${proxy.url}${paths[kind]}`, form, {}, options).then(
        ({ status, body }) => (status === 200 ? [] : [`${status} ${body.slice(0, 300)}`]),
        (error: unknown) => [String(error)],
      );
      failures.push(...failure);
    }
  });
  return {
    failures,
    sent,
    async stop(): Promise<void> {
      stopping.abort();
      await Promise.all(running);
      for (const agent of agents) agent.destroy();
    },
  };
}

/** What is left when nothing happens. */
async function left() {
  await until(async () => (await proxy.counted('requests_in_flight')) === 0);
  // Of requests to Vault that have long ended.
  await until(() => timers.size < 100, 'timers have fired');
  collectGarbage();
  await new Promise(setImmediate);
  collectGarbage();
  const count = (kind: string) => process.getActiveResourcesInfo().filter((name) => name === kind).length;
  return {
    heap: process.memoryUsage().heapUsed / 1e6,
    listeners: count('TCPServerWrap'),
    sockets: count('TCPSocketWrap'),
    timers: timers.size,
  };
}

async function reloadUnderLoad(count: number, reload: (nth: number) => Promise<unknown>): Promise<void> {
  /** @returns what is left after it */
  const run = async (from: number, to: number) => {
    const load = startLoad();
    try {
      for (let nth = from; nth < to; nth += 1) {
        await reload(nth);
        await wait(pause);
      }
    } finally {
      await load.stop();
    }
    expect(load.failures).toEqual([]);
    expect(accepted.size).toBe(load.sent.transfer);
    expect([...accepted.values()].filter((times) => times !== 1)).toEqual([]);
    accepted.clear();
    return { ...(await left()), ...load.sent };
  };
  const before = await run(0, warmUp);
  const startedAt = performance.now();
  const after = await run(warmUp, warmUp + count);
  const milliseconds = (performance.now() - startedAt) / count;
  printNumbers(expect.getState().currentTestName ?? '', { milliseconds, before, after });
  expect(after.listeners).toBe(before.listeners);
  expect(after.sockets).toBeLessThan(before.sockets + clients);
  expect(after.timers).toBeLessThan(before.timers + 50);
  expect(after.heap).toBeLessThan(before.heap + 10);
}

it('200 reloads under load fail no request, and leave nothing behind', async () => {
  await reloadUnderLoad(200, async (nth) => expect(await proxy.reload(configOf(nth))).toEqual([]));
});

it('150 reloads in an outage of Vault sign on with the cached keys', async () => {
  await proxy.balance();
  setup.vault.sealed = true;
  await reloadUnderLoad(150, async (nth) => {
    const other = proxy.reload(configOf(nth, { rotationGracePeriod: '1h' }));
    await expect(other).rejects.toThrow('the new key source cannot be used');
    await proxy.reload(configOf(nth));
  });
});
