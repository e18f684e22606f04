import { Agent } from 'node:http';
import { expect, it } from '@jest/globals';
import { asAttacker, attacker, balancePath, keepInFlight, victim } from '../support/attackers.ts';
import { post } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { printNumbers } from '../support/load.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();
const total = 100_000;
const uncached = 3_000;
/** Runs in the measured process: on SIGUSR2 it collects all garbage and reports what is left. */
const probe = `process.on('SIGUSR2', () => {
  gc();
  process.stderr.write('HEAP ' + process.memoryUsage().heapUsed + '\\n');
})`;

it('100,000 invented logins of a caller: memory stays flat, and others wait hardly longer for their keys', async () => {
  const setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  const { vault } = setup;
  for (let nth = 0; nth < 2 * uncached; nth += 1)
    vault.put(`gateway/sandbox/shop-${nth}`, { control_key: 'k' });
  for (const login of ['shop', 'acme']) vault.put(`gateway/sandbox/${login}`, { control_key: 'k' });
  vault.fail({ kind: 'late', milliseconds: 5 }, /^secret\/data/);
  const gateway = await starts.recordingGateway();
  gateway.respond = (response) => response.end('[]');
  const config = { keys: vaultKeys(vault.address), callers: [attacker(['acme*']), victim] };
  const proxy = await starts.process({
    gateway: gateway.url,
    nodeOptions: ['--expose-gc', '--import', `data:text/javascript,${encodeURIComponent(probe)}`],
    config,
    keys: {},
  });
  /** What the process holds without its garbage, in MB. */
  const heap = async (): Promise<number> => {
    const reports = () => Array.from(proxy.stderr().matchAll(/HEAP (\d+)/g), ([, bytes]) => Number(bytes));
    const before = reports().length;
    proxy.signal('SIGUSR2');
    await until(() => reports().length > before);
    return (reports().at(-1) ?? Number.NaN) / 1e6;
  };
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  starts.atEnd(() => agent.destroy());
  const ask = async (login: string, headers = {}): Promise<number> => {
    const { status } = await post(`${proxy.url}${balancePath(login)}`, '', headers, { agent });
    // What the test itself remembers would grow.
    [vault.seen.length, gateway.requests.length] = [0, 0];
    return status;
  };
  /** The 99th percentile of what a victim waits, in milliseconds, while `lasts`. */
  const p99 = async (login: (nth: number) => string, lasts: (nth: number) => boolean): Promise<number> => {
    const times: number[] = [];
    for (let nth = 0; lasts(nth); nth += 1) {
      const startedAt = performance.now();
      expect(await ask(login(nth))).toBe(200);
      times.push(performance.now() - startedAt);
    }
    return times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? Number.NaN;
  };

  const cachedOne = (): string => 'shop';
  await p99(cachedOne, (nth) => nth < 2_000);
  // The processor is as busy as later, but with requests of a login that has a key.
  const ordinary = keepInFlight(10, () => ask('acme', asAttacker));
  const calm = {
    cached: await p99(cachedOne, (nth) => nth < 1_500),
    uncached: await p99(
      (nth) => `shop-${nth}`,
      (nth) => nth < 1_500,
    ),
  };
  await ordinary.stop();
  const memory: number[] = [];
  let [asked, refused] = [0, 0];
  const attack = keepInFlight(10, async (nth) => {
    const status = await ask(`acme-${nth}`, asAttacker);
    if (status !== 502 && status !== 503) throw new Error(`unexpected ${status}`);
    [asked, refused] = [asked + 1, refused + (status === 503 ? 1 : 0)];
    if (asked % 10_000 === 0) memory.push(await heap());
  });
  const isOn = (): boolean => asked < total;
  const [cached, fetched] = await Promise.all([
    p99(cachedOne, isOn),
    p99(
      (nth) => `shop-${uncached + (nth % uncached)}`,
      (nth) => nth < uncached && isOn(),
    ),
  ]);
  await attack.stop();
  printNumbers('100,000 invented logins', {
    'p99 of a cached key, ms: with ordinary requests, attacked': [calm.cached, cached],
    'p99 of an uncached key, ms: with ordinary requests, attacked': [calm.uncached, fetched],
    'refused for want of room': refused,
    'heap without garbage, MB, each 10,000': memory.map(Math.round),
  });
  expect(cached).toBeLessThan(5 * calm.cached);
  expect(fetched).toBeLessThan(5 * calm.uncached);
  const least = (from: number, to: number): number => Math.min(...memory.slice(from, to));
  // 40,000 logins later. A login that is remembered takes 200 bytes or more.
  expect(least(7, 10) - least(3, 6)).toBeLessThan(4);
}, 600_000);
