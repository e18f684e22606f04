import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { balancePath, pay } from '../support/attackers.ts';
import { harness } from '../support/harness.ts';
import { foundIn, mayReadChildren, primeIn } from '../support/process-memory.ts';
import { describeWhere } from '../support/requires.ts';
import { newKeys } from '../support/rotating.ts';
import type { TestKeys } from '../support/service.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();
async function startAll(cache: object) {
  const setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  const put = (login: string, { controlKey, privateKey }: Required<TestKeys>): void =>
    setup.vault.put(`gateway/sandbox/${login}`, { control_key: controlKey, private_key: privateKey });
  const gateway = await starts.recordingGateway();
  gateway.respond = (response) => response.end('type=async-response\n');
  const config = { keys: vaultKeys(setup.vault.address, {}, { cache }) };
  const folder = starts.folder().path;
  const [part, heap] = [join(folder, 'part'), join(folder, 'heap')];
  const snapshot = `
    import { renameSync } from 'node:fs';
    import { writeHeapSnapshot } from 'node:v8';
    process.on('SIGUSR2', () => renameSync(writeHeapSnapshot('${part}'), '${heap}'));
  `;
  const nodeOptions = ['--import', `data:text/javascript,${encodeURIComponent(snapshot)}`];
  const process = await starts.process({ gateway: gateway.url, config, keys: {}, nodeOptions });
  /** The different texts in use that match, after a garbage collection. */
  const inUse = async (pattern: RegExp): Promise<ReadonlySet<string>> => {
    process.signal('SIGUSR2');
    await until(() => existsSync(heap), 'the heap snapshot is written', 60);
    const text = readFileSync(heap, 'utf8');
    rmSync(heap);
    return new Set(Array.from(text.matchAll(pattern), ([one]) => one));
  };
  return { admin: setup.admin, put, process, inUse };
}

describeWhere(mayReadChildren(), 'the memory of another process cannot be read here')('keys', () => {
  it.each(['delete', 'destroy'] as const)(
    'leave the memory of the process after: %s',
    async (how) => {
      const { admin, put, process, inUse } = await startAll({ ttl: '500ms' });
      const logins = ['deleted', 'other'];
      const keys = logins.map((login) => newKeys(`MARK-control-key-${login}`));
      for (const [nth, both] of keys.entries()) put(logins[nth] ?? '', both);
      const use = async (login: string): Promise<number[]> => [
        (await process.post(balancePath(login))).status,
        (await pay(process, '1', { login })).status,
      ];
      const primes = (): boolean[] =>
        keys.map(({ privateKey }) => foundIn(process.child.pid ?? 0, primeIn(privateKey)).found > 0);
      for (const login of logins) expect(await use(login)).toEqual([200, 200]);
      expect(primes()).toEqual([true, true]);
      expect((await inUse(/MARK-control-key-[a-z]+/g)).size).toBe(2);

      const path = 'gateway/sandbox/deleted';
      await (how === 'delete' ? admin.deleteVersions(path, [1]) : admin.destroy(path, [1]));
      await until(async () => (await use('deleted')).every((status) => status === 502), 'it signs no more');
      expect(await use('other')).toEqual([200, 200]);
      expect([...(await inUse(/MARK-control-key-[a-z]+/g))]).toEqual(['MARK-control-key-other']);
      expect(primes()).toEqual([false, true]);
    },
    120_000,
  );

  it('of 3,000 logins are about 100 in memory if that is the limit', async () => {
    const { put, process, inUse } = await startAll({ maxEntries: 100 });
    const { privateKey } = newKeys('');
    const marks = Array.from(
      { length: 3_000 },
      (_, nth) => `MARK-${String(nth).padStart(4, '0')}-control-key`,
    );
    for (const [nth, controlKey] of marks.entries()) put(`many-${nth}`, { controlKey, privateKey });
    const remaining = marks.keys();
    const client = async (): Promise<void> => {
      for (const nth of remaining) expect((await process.post(balancePath(`many-${nth}`))).status).toBe(200);
    };
    await Promise.all(Array.from({ length: 8 }, client));
    const found = (await inUse(/MARK-\d{4}-control-key/g)).size;
    console.info(`${found} of 3,000 control keys are in memory`);
    expect(found).toBeGreaterThanOrEqual(100);
    expect(found).toBeLessThan(120);
  }, 120_000);
});
