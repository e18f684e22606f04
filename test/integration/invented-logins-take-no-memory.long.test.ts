import { expect, it } from '@jest/globals';
import { asAttacker, attacker, balancePath, keepInFlight, victim } from '../support/attackers.ts';
import { harness } from '../support/harness.ts';
import { printNumbers } from '../support/load.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();
const total = 50_000;
/** Runs in the measured process: on SIGUSR2 it collects all garbage and reports what is left. */
const probe = `process.on('SIGUSR2', () => {
  gc();
  process.stderr.write('HEAP ' + process.memoryUsage().heapUsed + '\\n');
})`;

it('50,000 logins that a caller invents take no memory', async () => {
  const { vault } = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  const proxy = await starts.process({
    nodeOptions: ['--expose-gc', '--import', `data:text/javascript,${encodeURIComponent(probe)}`],
    config: { keys: vaultKeys(vault.address), callers: [attacker(['acme*']), victim] },
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
  const memory: number[] = [];
  let asked = 0;
  const attack = keepInFlight(10, async (nth) => {
    const { status } = await proxy.post(balancePath(`acme-${nth}`), '', asAttacker);
    // What the test itself remembers would grow.
    vault.seen.length = 0;
    expect([502, 503]).toContain(status);
    asked += 1;
    if (asked % 5_000 === 0) memory.push(await heap());
  });
  await until(() => asked >= total, 'all were asked for', 500);
  await attack.stop();
  printNumbers('50,000 invented logins', { 'heap without garbage, MB, each 5,000': memory });
  // 20,000 logins later. A login that is remembered takes 200 bytes or more.
  const least = (from: number, to: number): number => Math.min(...memory.slice(from, to));
  expect(least(7, 10) - least(3, 6)).toBeLessThan(3);
}, 600_000);
