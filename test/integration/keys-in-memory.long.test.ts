import { createPublicKey } from 'node:crypto';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { z } from 'zod';
import { balancePath, pay } from '../support/attackers.ts';
import { post } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { accept } from '../support/keyed-gateway.ts';
import { foundIn, mayReadChildren, primeIn } from '../support/process-memory.ts';
import { describeWhere } from '../support/requires.ts';
import { newKeys } from '../support/rotating.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { statusOf, TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

const describeWhereReadable = describeWhere(
  mayReadChildren(),
  'the memory of another process cannot be read here',
);

describeWhereReadable('keys leave the memory of the process', () => {
  const starts = harness();
  const controlKeys = /MARK-control-key-[a-z]+/g;

  async function startAll() {
    const setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
    const gateway = await starts.recordingGateway();
    gateway.respond = accept;
    const keys = vaultKeys(setup.vault.address, {}, { cache: { ttl: '500ms' } });
    const folder = starts.folder().path;
    const [part, heap] = [join(folder, 'part'), join(folder, 'heap')];
    const snapshot = `
      import { renameSync } from 'node:fs';
      import { writeHeapSnapshot } from 'node:v8';
      process.on('SIGUSR2', () => renameSync(writeHeapSnapshot('${part}'), '${heap}'));
    `;
    const nodeOptions = ['--import', `data:text/javascript,${encodeURIComponent(snapshot)}`];
    const process = await starts.process({ gateway: gateway.url, config: { keys }, keys: {}, nodeOptions });
    /** The different control keys in use, after a garbage collection. */
    const inUse = async (): Promise<string[]> => {
      process.signal('SIGUSR2');
      await until(() => existsSync(heap), 'the heap snapshot is written', 60);
      const text = readFileSync(heap, 'utf8');
      rmSync(heap);
      return [...new Set(Array.from(text.matchAll(controlKeys), ([one]) => one))].sort();
    };
    return { setup, process, inUse };
  }

  it.each(['delete', 'destroy'] as const)(
    'after: %s',
    async (how) => {
      const { setup, process, inUse } = await startAll();
      const { admin, vault } = setup;
      const logins = ['deleted', 'other'];
      const keys = logins.map((login) => newKeys(`MARK-control-key-${login}`));
      for (const [nth, { controlKey, privateKey }] of keys.entries())
        vault.put(`gateway/sandbox/${logins[nth]}`, { control_key: controlKey, private_key: privateKey });
      const use = async (login: string): Promise<number[]> => [
        (await process.post(balancePath(login))).status,
        (await pay(process, '1', { login })).status,
      ];
      const primes = (): boolean[] =>
        keys.map(({ privateKey }) => foundIn(process.child.pid ?? 0, primeIn(privateKey)).found > 0);
      for (const login of logins) expect(await use(login)).toEqual([200, 200]);
      expect(primes()).toEqual([true, true]);
      expect(await inUse()).toEqual(['MARK-control-key-deleted', 'MARK-control-key-other']);

      const path = 'gateway/sandbox/deleted';
      await (how === 'delete' ? admin.deleteVersions(path, [1]) : admin.destroy(path, [1]));
      await until(async () => (await use('deleted')).every((status) => status === 502), 'it signs no more');
      expect(await use('other')).toEqual([200, 200]);
      expect(await inUse()).toEqual(['MARK-control-key-other']);
      expect(primes()).toEqual([false, true]);
    },
    120_000,
  );
});

describeWhereReadable('the memory of a process that has signed', () => {
  const exportShape = z.object({ keys: z.object({ 1: z.string() }) });
  let cluster: TestCluster;
  /** The private key of Transit. */
  let exported: string;

  beforeAll(async () => {
    cluster = await new TestCluster({ logins: ['secret', 'transit'], fresh: '60s' }).open();
    const { admin, first } = cluster;
    await admin.request('POST', 'transit/keys/transit', { type: 'rsa-2048', exportable: true });
    const { data } = await admin.request('GET', 'transit/export/signing-key/transit');
    exported = exportShape.parse(data).keys[1];
    const keys = { ...first, publicKey: createPublicKey(exported), transitKey: 'transit:1' };
    await cluster.putInVault('transit', keys);
    cluster.acceptOnly('transit', keys);
    await cluster.startProcesses(2, await cluster.appRole());
  }, 30_000);
  afterAll(() => cluster.close());

  it.each([
    ['has the private key of a secret, which shows that it would be found', 0, 'secret', true],
    ['does not have the private key of Transit', 1, 'transit', false],
  ])('%s', async (_, index, login, has) => {
    const one = cluster.processes[index];
    if (one === undefined) throw new Error('no such process');
    const { url, form } = statusOf(one, login);
    for (let round = 0; round < 20; round += 1) expect((await post(url, form)).status).toBe(200);
    const key = has ? cluster.first.privateKey : exported;
    const { found, bytes } = foundIn(one.child.pid ?? 0, primeIn(key));
    expect(bytes).toBeGreaterThan(10_000_000);
    expect(found > 0).toBe(has);
  });
});
