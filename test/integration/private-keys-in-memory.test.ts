import { spawn } from 'node:child_process';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { z } from 'zod';
import { post } from '../support/forwarding.ts';
import { describeWhere } from '../support/requires.ts';
import { statusOf, TestCluster } from '../support/test-cluster.ts';

const exportShape = z.object({ keys: z.object({ 1: z.string() }) });
const readable = /^([0-9a-f]+)-([0-9a-f]+) r/;
const chunk = 4_194_304;

/** The first prime of an RSA key, as it is stored in PEM and as OpenSSL calculates with it. */
function primeIn(pem: string): readonly Buffer[] {
  const { p = '' } = createPrivateKey(pem).export({ format: 'jwk' });
  const bytes = Buffer.from(p, 'base64url');
  return [bytes, Buffer.from(bytes.toReversed())];
}

/** How many of these texts are in the memory of another process. And how many bytes it has. */
function foundIn(pid: number, texts: readonly Buffer[]): { found: number; bytes: number } {
  const memory = openSync(`/proc/${pid}/mem`, 'r');
  const overlap = Math.max(...texts.map(({ length }) => length));
  const found = new Set<Buffer>();
  let bytes = 0;
  const buffer = Buffer.alloc(chunk);
  for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
    const [, from = '0', to = '0'] = readable.exec(line) ?? [];
    const end = Number.parseInt(to, 16);
    for (let at = Number.parseInt(from, 16); at < end; at += chunk - overlap) {
      const read = tryRead(memory, buffer, Math.min(chunk, end - at), at);
      bytes += read;
      for (const text of texts) if (buffer.subarray(0, read).includes(text)) found.add(text);
    }
  }
  closeSync(memory);
  return { found: found.size, bytes };
}

/** Not where there is no /proc, or the system forbids debugging other processes of the same user. */
function mayReadChildren(): boolean {
  const child = spawn(process.execPath, ['--version']);
  try {
    closeSync(openSync(`/proc/${child.pid}/mem`, 'r'));
    return true;
  } catch {
    return false;
  } finally {
    child.kill();
  }
}

/** Some regions of the kernel cannot be read. */
function tryRead(file: number, buffer: Buffer, length: number, at: number): number {
  try {
    return readSync(file, buffer, 0, length, at);
  } catch {
    return 0;
  }
}

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
