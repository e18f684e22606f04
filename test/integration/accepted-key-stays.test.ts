import { createPublicKey } from 'node:crypto';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { Secret } from '../../src/secret.ts';
import { harness } from '../support/harness.ts';
import { newKeys } from '../support/rotating.ts';
import type { TestProxy } from '../support/service.ts';
import { noon } from '../support/simulator.ts';
import { VaultAdmin } from '../support/stub-vault/admin.ts';
import { vaultKeys } from '../support/stub-vault/harness.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { until } from '../support/until.ts';

const hour = 3_600_000;
const day = 24 * hour;
const path = 'gateway/sandbox/acme';
const registered = newKeys('the key that the gateway accepts');
const other = newKeys('a key that the gateway does not know');
const fields = ({ controlKey, privateKey }: typeof registered) => ({
  control_key: controlKey,
  private_key: privateKey,
});

const starts = harness();
let now: number;
let vault: StubVault;
let admin: VaultAdmin;
let proxy: TestProxy;
let gateway: string;

const clock = (): number => now;

/** An instance that reads Vault again with each request. */
const startProxy = (): Promise<TestProxy> => {
  const keys = vaultKeys(vault.address, {}, { cache: { ttl: '0ms', negativeTtl: '0ms' } });
  return starts.proxy({ gateway, clock, monotonic: () => now - noon, config: { keys } });
};

beforeEach(async () => {
  now = noon;
  const { controlKey, privateKey } = registered;
  const acme = { controlKeys: [new Secret(controlKey)], publicKeys: [createPublicKey(privateKey)] };
  gateway = (await starts.simulator({ clock, keys: new Map([['acme', acme]]) })).url;
  vault = starts.closing(new StubVault({ clock }));
  admin = new VaultAdmin(await vault.listen(), rootToken);
  vault.put(path, fields(registered));
  proxy = await startProxy();
  await expectAll(200);
});

/** Of a query signed with the control key, one with the RSA key, and a payment. */
async function expectAll(expected: number): Promise<void> {
  const all = [await proxy.balance(), await proxy.status(), await proxy.transfer()];
  expect(all.map(({ status }) => status)).toEqual(Array(3).fill(expected));
}

/** Lets time pass with a query every eleven hours, and the source read after each. */
async function pass(milliseconds: number): Promise<void> {
  /** How many reads of Vault have ended. */
  const ended = (): Promise<number> => proxy.counted('key_fetch_duration_seconds_count');
  for (const end = now + milliseconds; now < end; ) {
    now += Math.min(11 * hour, end - now);
    const before = await ended();
    await proxy.balance();
    await until(async () => (await ended()) > before);
  }
}

const setVersions = (count: number) =>
  admin.request('POST', `secret/metadata/${path}`, { max_versions: count });

describe('the key that the gateway accepts', () => {
  it('signs on, however many other versions are written and however long that is ago', async () => {
    await setVersions(20);
    for (let write = 0; write < 12; write += 1)
      vault.put(path, { ...fields(other), control_key: `not registered ${write}` });
    await expectAll(200);
    await pass(3 * day);
    await expectAll(200);
  });

  it('signs also in an instance that starts when the newest version has lacked it for long', async () => {
    vault.put(path, { control_key: registered.controlKey });
    vault.put(path, { control_key: registered.controlKey, note: 'again' });
    now += 3 * day;
    proxy = await startProxy();
    expect((await proxy.balance()).status).toBe(200);
    const before = vault.count(/GET secret\/data/);
    expect((await proxy.status()).status).toBe(200);
    const problem = 'the newest version lacks the field private_key (its fields: control_key, note)';
    expect(proxy.logLines(problem)).toHaveLength(1);
    expect(vault.count(/GET secret\/data/) - before).toBeLessThan(8);
  });

  it('signs on after a pause shorter than staleIfError, and never again once its version is destroyed', async () => {
    vault.put(path, fields(other));
    now += 11 * hour;
    await expectAll(200);
    await admin.destroy(path, [1]);
    await pass(hour);
    await expectAll(403);
  });
});

it('a login whose metadata was deleted is stopped by a version without keys that is deleted', async () => {
  await admin.request('DELETE', `secret/metadata/${path}`);
  await pass(hour);
  await expectAll(200);
  vault.put(path, { stopped: 'yes' });
  await admin.request('DELETE', `secret/data/${path}`);
  now += 60_000;
  await until(async () => (await proxy.balance()).body.includes('key-missing'));
  await expectAll(502);
});
