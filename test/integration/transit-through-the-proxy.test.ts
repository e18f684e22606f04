import { beforeEach, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { auditIn, recordsIn } from '../support/audit.ts';
import { paths, verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import type { TestProxy } from '../support/service.ts';
import { controlKey, gatewayKeys, type TestSimulator } from '../support/simulator.ts';
import type { Fault } from '../support/stub-vault/faults.ts';
import {
  acme,
  newestTransitKey,
  roleName,
  VaultTestEnvironment,
  vaultKeys,
} from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();
const transfer = 'client_orderid=1&amount=1.00&currency=EUR&login=acme';
const signed = /^POST transit\/sign\/acme\/sha2-256/;
const records = z.array(z.object({ keyVersion: z.int().optional(), keyFingerprint: z.string().optional() }));

let vault: VaultTestEnvironment;
let gateway: TestSimulator['simulator'];
let proxy: TestProxy;
let keys: ReturnType<typeof vaultKeys>;
let firstToken: string;

beforeEach(async () => {
  vault = starts.closing(await new VaultTestEnvironment({ clock: () => Date.now() }).open());
  await vault.admin.enable('mounts', 'transit', { type: 'transit' });
  const { url, simulator } = await starts.simulator({ clock: () => Date.now(), keys: new Map() });
  gateway = simulator;
  const publicKeys = [await vault.admin.newTransitKey('acme')];
  gateway.keys.set('acme', { ...gatewayKeys, publicKeys });
  await vault.admin.put('gateway/sandbox/acme', { control_key: controlKey, transit_key: 'acme:1' });
  firstToken = await vault.admin.token({ policies: [roleName], ttl: '1h' });
  const auth = { method: 'token', token: firstToken } as const;
  keys = vaultKeys(vault.vault.address, { auth, transit: { mounts: { sandbox: 'transit' } } });
  proxy = await starts.proxy({ gateway: url, config: { keys, audit: auditIn(vault.folder) } });
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
    const key = await newestTransitKey(source);
    if (typeof key === 'string') throw new Error(key);
    await source.sign?.(acme, key, 'any text');
    // One for reads and signatures.
    expect(vault.vault.openConnections).toBe(others + 1);
    source.useTls?.({ ca: 'of another CA' });
    await until(() => vault.vault.openConnections === others, 'they are closed', 3);
  });

  it.each<[does: string, Fault, cause: string]>([
    ['hangs', { kind: 'black-hole' }, 'Vault did not respond in time'],
    ['resets connections', { kind: 'reset' }, 'Vault cannot be reached (ECONNRESET)'],
    ['is sealed', { kind: 'status', status: 503 }, 'Vault is sealed (HTTP 503)'],
    ['limits the rate', { kind: 'status', status: 429 }, 'rate-limited by Vault (HTTP 429)'],
    ['denies it', { kind: 'status', status: 403 }, 'Vault denied permission (HTTP 403)'],
  ])(
    'is not paid for while Vault does not sign, of which only that fails: it %s',
    async (_, fault, cause) => {
      await proxy.reload({ keys: { ...keys, vault: { ...keys.vault, timeout: '500ms' } } });
      expect([(await pay()).status, (await proxy.balance()).status]).toEqual([200, 200]);
      vault.vault.fail(fault, /^transit\/sign/);
      const startedAt = performance.now();
      const response = await pay();
      expect(performance.now() - startedAt).toBeLessThan(3_000);
      expect(verdict(response)).toBe('503 signing-unavailable not-sent not-sent');
      expect(response.headers['retry-after']).toBe('5');
      expect(gateway.seen.count()).toBe(2);
      expect((await proxy.balance()).status).toBe(200);
      const { findings } = await proxy.instanceStatus();
      expect(findings).toMatchObject([
        { code: 'signing-unavailable', summary: expect.stringContaining(cause) },
      ]);
      vault.vault.heal();
      await until(async () => (await pay()).status === 200, 'Vault signs again', 3);
      const lines = (msg: string) =>
        proxy.logLines(msg).map(({ level, source, cause: logged }) => [level, source, logged]);
      expect(lines('Vault does not sign')).toEqual([['error', 'sandbox', cause]]);
      expect(lines('Vault signs again')).toEqual([['info', 'sandbox', undefined]]);
    },
  );

  it('pays on after reloads that keep the source, replace it, and change the limits or the token', async () => {
    await pay();
    const token = await vault.admin.token({ policies: [roleName], ttl: '1h' });
    for (const changed of [
      { ...keys, cache: { ttl: '30s' } },
      { ...keys, vault: { ...keys.vault, timeout: '4s' } },
      { ...keys, vault: { ...keys.vault, transit: { mounts: { sandbox: 'transit' }, maxInFlight: 2 } } },
      { ...keys, vault: { ...keys.vault, auth: { method: 'token', token } as const } },
    ]) {
      await proxy.reload({ keys: changed });
      expect((await pay()).status).toBe(200);
    }
    expect(vault.vault.count(signed)).toBe(5);
    await vault.admin.revoke(firstToken);
    expect((await pay()).status).toBe(200);
  });

  it('stops after a reload without the engine, and says so', async () => {
    await pay();
    const { transit: _transit, ...rest } = keys.vault;
    await proxy.reload({ keys: { ...keys, vault: rest } });
    expect(verdict(await pay())).toMatch(/^502 key-unusable not-sent/);
    expect(vault.vault.count(signed)).toBe(1);
  });
});
