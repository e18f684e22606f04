import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { harness } from '../support/harness.ts';
import { foundIn, mayReadChildren, primeIn } from '../support/process-memory.ts';
import { describeWhere } from '../support/requires.ts';
import { newKeys } from '../support/rotating.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

describeWhere(mayReadChildren(), 'the memory of another process cannot be read here')(
  'keys leave the memory of the process',
  () => {
    const starts = harness();
    const controlKeys = /MARK-control-key-[a-z]+/g;

    async function startAll() {
      const setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
      const gateway = await starts.recordingGateway();
      gateway.respond = (response) =>
        response
          .writeHead(200, { 'Content-Type': 'text/html;charset=utf-8' })
          .end('type=status-response\n&serial-number=1\n&status=approved\n');
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

    it('after their versions are deleted', async () => {
      const { setup, process, inUse } = await startAll();
      const { admin, vault } = setup;
      const logins = ['deleted', 'other'];
      const keys = logins.map((login) => newKeys(`MARK-control-key-${login}`));
      for (const [nth, { controlKey, privateKey }] of keys.entries())
        vault.put(`gateway/sandbox/${logins[nth]}`, { control_key: controlKey, private_key: privateKey });
      const use = async (login: string): Promise<number[]> => {
        const balance = await process.post(`/sandbox/gw/api/v2/get-balance/manager/${login}`);
        const form = `login=${login}&client_orderid=1&amount=1.00&currency=EUR`;
        return [balance.status, (await process.post('/sandbox/gw/api/v4/transfer/1', form)).status];
      };
      const primes = (): boolean[] =>
        keys.map(({ privateKey }) => foundIn(process.child.pid ?? 0, primeIn(privateKey)).found > 0);
      for (const login of logins) expect(await use(login)).toEqual([200, 200]);
      expect(primes()).toEqual([true, true]);
      expect(await inUse()).toEqual(['MARK-control-key-deleted', 'MARK-control-key-other']);

      const path = 'gateway/sandbox/deleted';
      await admin.deleteVersions(path, [1]);
      await until(async () => (await use('deleted')).every((status) => status === 502), 'it signs no more');
      expect(await use('other')).toEqual([200, 200]);
      expect(await inUse()).toEqual(['MARK-control-key-other']);
      expect(primes()).toEqual([false, true]);
    }, 120_000);
  },
);
