import { createPublicKey } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { z } from 'zod';
import { post } from '../support/forwarding.ts';
import { foundIn, mayReadChildren, primeIn } from '../support/process-memory.ts';
import { describeWhere } from '../support/requires.ts';
import { statusOf, TestCluster } from '../support/test-cluster.ts';

const exportShape = z.object({ keys: z.object({ 1: z.string() }) });
const describeWhereReadable = describeWhere(
  mayReadChildren(),
  'the memory of another process cannot be read here',
);

describeWhereReadable('the memory of a process that has signed', () => {
  let cluster: TestCluster;

  beforeAll(async () => {
    cluster = await new TestCluster({ logins: ['secret', 'transit'], fresh: '60s' }).open();
    await cluster.admin.request('POST', 'transit/keys/transit', { type: 'rsa-2048', exportable: true });
    const publicKey = createPublicKey(await exported());
    const keys = { ...cluster.first, publicKey, transitKey: 'transit:1' };
    await cluster.putInVault('transit', keys);
    cluster.acceptOnly('transit', keys);
    await cluster.startProcesses(2, await cluster.appRole());
  }, 30_000);
  afterAll(() => cluster.close());

  async function exported(): Promise<string> {
    const { data } = await cluster.admin.request('GET', 'transit/export/signing-key/transit');
    return exportShape.parse(data).keys[1];
  }

  async function signedIn(index: number, login: string): Promise<number> {
    const one = cluster.processes[index];
    if (one === undefined) throw new Error('no such process');
    for (let round = 0; round < 20; round += 1) {
      const { url, form } = statusOf(one, login);
      expect((await post(url, form)).status).toBe(200);
    }
    return one.child.pid ?? 0;
  }

  it('has the private key of a secret, which shows that it would be found', async () => {
    const pid = await signedIn(0, 'secret');
    const { found, bytes } = foundIn(pid, primeIn(cluster.first.privateKey));
    expect(bytes).toBeGreaterThan(10_000_000);
    expect(found).toBeGreaterThan(0);
  });

  it('does not have the private key of Transit', async () => {
    const pid = await signedIn(1, 'transit');
    const { found, bytes } = foundIn(pid, primeIn(await exported()));
    expect(bytes).toBeGreaterThan(10_000_000);
    expect(found).toBe(0);
  });
});
