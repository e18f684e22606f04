import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { KeySource } from '../../src/keys/key-source.ts';
import { KeyReader } from '../../src/keys/reader.ts';
import { KeyTable } from '../../src/keys/table.ts';
import type { Fault } from '../support/stub-vault/faults.ts';
import { acme, controlKeys, problemOf, VaultTestEnvironment } from '../support/stub-vault/harness.ts';

const read = /^secret\/data/;
const elsewhere = 'http://127.0.0.1:9/v1/secret/data/gateway/sandbox/acme';
const status = (code: number, headers = {}): Fault => ({ kind: 'status', status: code, headers });

/** Responses instead of a secret, the kind of error, and whether it means that Vault as a whole is unavailable. */
const rows: readonly (readonly [string, Fault, string, 'outage' | 'only this login'])[] = [
  ['503', status(503), 'sealed', 'outage'],
  ['307', status(307, { Location: elsewhere }), 'redirected', 'outage'],
  ['a black hole', { kind: 'black-hole' }, 'timeout', 'outage'],
  ['a dripping body', { kind: 'drip' }, 'timeout', 'outage'],
  ['a reset', { kind: 'reset' }, 'unreachable', 'outage'],
  ['another protocol', status(101, { Connection: 'Upgrade', Upgrade: 'other' }), 'unreachable', 'outage'],
  ['HTML with 200', { kind: 'html' }, 'invalid-response', 'outage'],
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

  it.each(rows)('%s instead of a secret removes no cached key', async (_name, fault, kind, scope) => {
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
