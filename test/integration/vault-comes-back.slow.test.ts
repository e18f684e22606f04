import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { KeySource } from '../../src/keys/key-source.ts';
import { acme, problemOf, VaultTestEnvironment } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

/** In real time, as the timeouts of requests are. */
describe('a Vault that hung', () => {
  let setup: VaultTestEnvironment;
  let source: KeySource;

  beforeEach(async () => {
    setup = await new VaultTestEnvironment().open();
    await setup.admin.put('gateway/sandbox/acme', { control_key: 'first' });
    source = setup.source({ auth: await setup.appRole() }, { monotonic: () => performance.now() });
    await source.read(acme);
    setup.vault.fail({ kind: 'black-hole' });
    setup.vault.seen.length = 0;
  });
  afterEach(() => setup.close());

  it('for less than its timeout serves the waiting reads within two seconds of its recovery', async () => {
    const logins = Array.from({ length: 8 }, (_, index) => ({ ...acme, login: `l${index}` }));
    const reads = Promise.all(logins.map((address) => problemOf(source.read(address))));
    await wait(2500);
    setup.vault.heal();
    const returned = performance.now();
    expect(new Set(await reads)).toEqual(new Set(['none']));
    // Two seconds, and as much for a busy machine. Without another attempt, they would end with the timeout of 5 s.
    expect(performance.now() - returned).toBeLessThan(4000);
  });

  it('for longer is in use within two seconds of its recovery, while a probe still waits for a response', async () => {
    expect(await problemOf(source.read(acme))).toBe('timeout');
    await wait(1100);
    const probe = problemOf(source.read(acme));
    await until(() => setup.vault.seen.length > 5, 'the probe was sent');
    setup.vault.heal();
    const returned = performance.now();
    expect(await probe).toBe('none');
    expect(await problemOf(source.read({ ...acme, login: 'other' }))).toBe('none');
    // Two seconds, and as much for a busy machine. Without another attempt, they would end with the timeout of 5 s.
    expect(performance.now() - returned).toBeLessThan(4000);
  });
});
