import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { KeySource } from '../../src/keys/key-source.ts';
import { KeyReader } from '../../src/keys/reader.ts';
import { KeyTable } from '../../src/keys/table.ts';
import { VaultError } from '../../src/keys/vault/errors.ts';
import type { Fault } from '../support/stub-vault/faults.ts';
import { acme, controlKeys, problemOf, VaultTestEnvironment } from '../support/stub-vault/harness.ts';
import { StubVault } from '../support/stub-vault/server.ts';

const read = /^secret\/data/;
const elsewhere = 'http://127.0.0.1:9/v1/secret/data/gateway/sandbox/acme';
const status = (code: number, headers = {}): Fault => ({ kind: 'status', status: code, headers });

/** Responses instead of a secret, the kind of error, and whether it means that Vault as a whole is unavailable. */
const rows: readonly (readonly [string, Fault, string, 'outage' | 'only this login'])[] = [
  ['400', status(400), 'rejected', 'only this login'],
  ['403', status(403), 'denied', 'only this login'],
  ['404 of a load balancer', { kind: 'html', status: 404 }, 'invalid-response', 'outage'],
  ['404 of a missing mount', { kind: 'status', status: 404, errors: ['no handler'] }, 'no-route', 'outage'],
  ['405', status(405), 'rejected', 'only this login'],
  ['412', status(412), 'behind', 'outage'],
  ['429', status(429), 'throttled', 'outage'],
  ['472', status(472), 'standby', 'outage'],
  ['473', status(473), 'standby', 'outage'],
  ['500', status(500), 'failing', 'outage'],
  ['501', status(501), 'uninitialized', 'outage'],
  ['502', status(502), 'failing', 'outage'],
  ['503', status(503), 'sealed', 'outage'],
  ['504', status(504), 'failing', 'outage'],
  ['301', status(301, { Location: elsewhere }), 'redirected', 'outage'],
  ['307', status(307, { Location: elsewhere }), 'redirected', 'outage'],
  ['418', status(418), 'invalid-response', 'outage'],
  ['a black hole', { kind: 'black-hole' }, 'timeout', 'outage'],
  ['a dripping body', { kind: 'drip' }, 'timeout', 'outage'],
  ['a reset', { kind: 'reset' }, 'unreachable', 'outage'],
  ['another protocol', status(101, { Connection: 'Upgrade', Upgrade: 'other' }), 'unreachable', 'outage'],
  ['HTML with 200', { kind: 'html' }, 'invalid-response', 'outage'],
  ['cut JSON', { kind: 'cut-json' }, 'invalid-response', 'outage'],
  ['60 MB that are not JSON', { kind: 'huge' }, 'invalid-response', 'outage'],
  [
    'a secret of 2 MB',
    { kind: 'json', body: { data: { data: { note: 'x'.repeat(2_000_000) }, metadata: {} } } },
    'too-large',
    'only this login',
  ],
  [
    'JSON that is no secret',
    { kind: 'json', body: { data: { keys: [] } } },
    'unexpected-content',
    'only this login',
  ],
  ['an empty object', { kind: 'json', body: {} }, 'unexpected-content', 'only this login'],
  ['null', { kind: 'json', body: null }, 'unexpected-content', 'only this login'],
];

describe('keys in Vault, while Vault fails', () => {
  let setup: VaultTestEnvironment;
  let source: KeySource;
  let table: KeyTable;
  let reader: KeyReader;

  beforeEach(async () => {
    setup = await new VaultTestEnvironment().open();
    source = setup.source({ auth: await setup.appRole(), timeout: 1000 });
    const hour = 3_600_000;
    const cache = { ttl: 60_000, staleIfError: 12 * hour, negativeTtl: 10_000, maxEntries: 100 };
    const { setTimer } = setup.clock;
    const options = { ...setup.options, setTimer, events: setup.observed, sourceName: 'vault' };
    table = new KeyTable({ ...cache, rotationGracePeriod: 24 * hour }, options);
    reader = new KeyReader(source, table, options);
    await setup.admin.put('gateway/sandbox/acme', { control_key: 'first' });
  });
  afterEach(() => setup.close());

  const cached = () => controlKeys(table.find(acme)?.ring);

  describe.each(rows)('%s instead of a secret', (_name, fault, kind, scope) => {
    it(`is ${kind}, never a missing key, and over when Vault has recovered`, async () => {
      setup.vault.fail(fault, read);
      expect(await problemOf(source.read(acme))).toBe(kind);
      setup.vault.heal();
      setup.clock.advance(60_000);
      expect(controlKeys(await source.read(acme))).toEqual(['1:first']);
    });

    it(`does not remove a cached key, and is about ${scope === 'outage' ? 'Vault' : scope}`, async () => {
      await reader.read(acme, 'request');
      setup.vault.fail(fault, read);
      expect(await problemOf(reader.read(acme, 'refresh'))).toBe(kind);
      expect(cached()).toEqual(['1:first']);
      expect(reader.isFailing).toBe(scope === 'outage');
      setup.vault.heal();
      setup.clock.advance(1_000);
      await reader.read(acme, 'refresh');
      expect(reader.isFailing).toBe(false);
    });
  });

  it('does not remove a cached key while nothing listens at the address', async () => {
    await reader.read(acme, 'request');
    const { port } = setup.vault;
    await setup.vault.close();
    expect(await problemOf(reader.read(acme, 'refresh'))).toBe('unreachable');
    expect(cached()).toEqual(['1:first']);
    await setup.vault.listen(port);
    setup.clock.advance(1_000);
    await reader.read(acme, 'refresh');
    expect(reader.isFailing).toBe(false);
  });

  it('never follows a redirect, which would leak the token', async () => {
    const other = setup.closeAtEnd(new StubVault());
    await other.listen();
    setup.vault.fail(status(307, { Location: `${other.address}/v1/secret/data/gateway/sandbox/acme` }));
    expect(await problemOf(source.read(acme))).toBe('redirected');
    expect(other.seen).toEqual([]);
  });

  it('removes a key that is deleted or destroyed', async () => {
    await reader.read(acme, 'request');
    await setup.admin.deleteVersions('gateway/sandbox/acme', [1]);
    await reader.read(acme, 'refresh');
    expect(cached()).toBeUndefined();
    await setup.admin.request('POST', 'secret/undelete/gateway/sandbox/acme', { versions: [1] });
    await reader.read(acme, 'request');
    expect(cached()).toEqual(['1:first']);
    await setup.admin.destroy('gateway/sandbox/acme', [1]);
    await reader.read(acme, 'refresh');
    expect(cached()).toBeUndefined();
  });

  it('says how long Vault wants to be left alone, ten minutes at most', async () => {
    const waits: unknown[] = [];
    for (const seconds of ['120', '86400']) {
      setup.vault.fail(status(429, { 'Retry-After': seconds }), read);
      const failed = await source.read(acme).catch((error: unknown) => error);
      waits.push(failed instanceof Error && failed.cause instanceof VaultError && failed.cause.retryAfter);
    }
    expect(waits).toEqual([120, 600]);
  });

  it('does not log in again because of denied logins, since the token can look itself up', async () => {
    await source.read(acme);
    setup.clock.advance(3_600_000 / 2);
    setup.vault.fail(status(403), read);
    setup.vault.seen.length = 0;
    for (let index = 0; index < 50; index += 1) {
      expect(await problemOf(source.read({ ...acme, login: `l${index}` }))).toBe('denied');
    }
    expect(setup.vault.count(/approle\/login/)).toBe(0);
    expect(setup.vault.count(/lookup-self/)).toBe(1);
    expect(setup.vault.count(/secret\/data/)).toBe(50);
  });
});
