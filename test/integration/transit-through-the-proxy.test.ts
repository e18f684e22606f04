import { beforeEach, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { ringIn } from '../../src/keys/key-source.ts';
import { auditIn, recordsIn } from '../support/audit.ts';
import { paths, verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import type { TestProxy } from '../support/service.ts';
import { controlKey } from '../support/simulator.ts';
import { acme, roleName, VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();
const transfer = 'client_orderid=1&amount=1.00&currency=EUR&login=acme';
const signed = /^POST transit\/sign\/acme\/sha2-256/;
const records = z.array(z.object({ keyVersion: z.int().optional(), keyFingerprint: z.string().optional() }));

let vault: VaultTestEnvironment;
let proxy: TestProxy;
let keys: ReturnType<typeof vaultKeys>;
let accept: () => Promise<void>;

beforeEach(async () => {
  vault = starts.closing(await new VaultTestEnvironment({ clock: () => Date.now() }).open());
  await vault.admin.enable('mounts', 'transit', { type: 'transit' });
  const gateway = await starts.simulator({ clock: () => Date.now(), keys: new Map() });
  accept = async () => {
    const publicKeys = [await vault.admin.newTransitKey('acme')];
    gateway.simulator.keys.set('acme', { controlKeys: [], publicKeys });
  };
  await accept();
  await vault.admin.put('gateway/sandbox/acme', { control_key: controlKey, transit_key: 'acme:1' });
  const token = await vault.admin.token({ policies: [roleName], ttl: '1h' });
  const auth = { method: 'token', token } as const;
  keys = vaultKeys(vault.vault.address, { auth, transit: { mounts: { sandbox: 'transit' } } });
  proxy = await starts.proxy({ gateway: gateway.url, config: { keys, audit: auditIn(vault.folder) } });
});

const pay = () => proxy.post(paths.transfer, transfer);

describe('a login whose RSA key does not leave Vault', () => {
  it('pays: the gateway verifies the signature, and log, status and audit trail name the key', async () => {
    expect((await pay()).status).toBe(200);
    expect(vault.vault.count(signed)).toBe(1);
    const { keys: shown } = await proxy.instanceStatus();
    const rsa = shown.list.find(({ kind }) => kind === 'private_key');
    expect(rsa).toMatchObject({ signingVersion: 1, versions: [{ version: 1, transitKey: 'acme:1' }] });
    const fingerprint = rsa?.versions[0]?.fingerprint;
    expect(fingerprint).toMatch(/^[0-9a-f]{64}$/);
    const trail = records.parse(recordsIn(vault.folder.at('audit')));
    expect(trail).toContainEqual(expect.objectContaining({ keyVersion: 1, keyFingerprint: fingerprint }));
    expect(await proxy.metric('transit_signature_duration_seconds_count', { result: 'ok' })).toBe(1);
  });

  it('sends no payment data to Vault, and signs each request once', async () => {
    await pay();
    const sent = vault.vault.seen.filter(({ target }) => target.startsWith('transit/sign'));
    expect(sent.map(({ body }) => Object.keys(JSON.parse(body)).sort())).toEqual([
      ['input', 'key_version', 'prehashed', 'signature_algorithm'],
    ]);
    const [{ body } = { body: '{}' }] = sent;
    const { input, ...rest } = z.looseObject({ input: z.string() }).parse(JSON.parse(body));
    expect(Buffer.from(input, 'base64')).toHaveLength(32);
    expect(rest).toEqual({ key_version: 1, prehashed: true, signature_algorithm: 'pkcs1v15' });
  });

  it('shares connections to Vault, which end when its certificates are replaced', async () => {
    await pay();
    const { connections } = vault.vault;
    for (let count = 0; count < 5; count += 1) await pay();
    expect(vault.vault.connections).toBe(connections);

    const others = vault.vault.openConnections;
    const source = vault.source({
      transit: { mounts: { sandbox: 'transit' }, maxInFlight: 2, maxPerSecond: 9 },
    });
    const key = ringIn(await source.read(acme))?.find((one) => one.kind === 'private_key');
    if (key === undefined || !('key' in key) || !('publicKey' in key.key)) throw new Error('no Transit key');
    await source.sign?.(acme, key.key, 'any text');
    // One for reads and signatures.
    expect(vault.vault.openConnections).toBe(others + 1);
    source.useTls?.({ ca: 'of another CA' });
    await until(() => vault.vault.openConnections === others, 'they are closed', 3);
  });

  it('waits a second at most for a Vault that still hangs, and the log has one line for the beginning and the end', async () => {
    await proxy.reload({ keys: { ...keys, vault: { ...keys.vault, timeout: '4s' } } });
    await pay();
    vault.vault.fail({ kind: 'black-hole' }, /^transit\/sign/);
    expect(verdict(await pay())).toBe('503 signing-unavailable not-sent not-sent');
    for (let count = 0; count < 2; count += 1) {
      const startedAt = performance.now();
      const response = await pay();
      expect(verdict(response)).toBe('503 signing-unavailable not-sent not-sent');
      expect(response.headers['retry-after']).toBe('5');
      expect(performance.now() - startedAt).toBeLessThan(3500);
      // A slot that is free has no request left in Vault.
      await until(() => vault.vault.openConnections < 2, 'the request has ended too', 1);
    }
    vault.vault.heal();
    await until(async () => (await pay()).status === 200, 'Vault signs again');
    const lines = (msg: string) =>
      proxy.logLines(msg).map(({ level, source, cause }) => [level, source, cause]);
    expect(lines('Vault does not sign')).toEqual([['error', 'sandbox', 'Vault did not respond in time']]);
    expect(lines('Vault signs again')).toEqual([['info', 'sandbox', undefined]]);
  }, 20_000);

  it('pays on after reloads that keep the source, replace it, and change the limits', async () => {
    await pay();
    for (const changed of [
      { ...keys, cache: { ttl: '30s' } },
      { ...keys, vault: { ...keys.vault, timeout: '4s' } },
      { ...keys, vault: { ...keys.vault, transit: { mounts: { sandbox: 'transit' }, maxInFlight: 2 } } },
    ]) {
      await proxy.reload({ keys: changed });
      expect((await pay()).status).toBe(200);
    }
    expect(vault.vault.count(signed)).toBe(4);
  });

  it('signs with the token of the reloaded configuration', async () => {
    await pay();
    const { auth } = keys.vault;
    const token = await vault.admin.token({ policies: [roleName], ttl: '1h' });
    await proxy.reload({ keys: { ...keys, vault: { ...keys.vault, auth: { method: 'token', token } } } });
    await vault.admin.revoke(auth.method === 'token' ? String(auth.token) : '');
    expect((await pay()).status).toBe(200);
  });

  it('stops after a reload without the engine, and says so', async () => {
    await pay();
    const { transit: _transit, ...rest } = keys.vault;
    await proxy.reload({ keys: { ...keys, vault: rest } });
    expect(verdict(await pay())).toMatch(/^502 key-unusable not-sent/);
    expect(vault.vault.count(signed)).toBe(1);
  });

  it('is not signed for by a key that was replaced in Vault, and is by the next one once that is read', async () => {
    await pay();
    await vault.admin.request('POST', 'transit/keys/acme/config', { deletion_allowed: true });
    await vault.admin.request('DELETE', 'transit/keys/acme');
    await accept();
    expect(verdict(await pay())).toMatch(/^502 key-unusable not-sent/);
    await proxy.reload({ keys: { ...keys, cache: { ttl: '100ms' } } });
    await until(async () => (await pay()).status === 200, 'the new key is read');
  });
});
