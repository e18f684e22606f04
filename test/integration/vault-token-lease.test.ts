import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { VaultConfig } from '../../src/config/schema.ts';
import type { KeySource } from '../../src/keys/key-source.ts';
import { Secret } from '../../src/secret.ts';
import { acme, day, roleName, VaultTestEnvironment } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const second = 1000;
const dayInSeconds = day / second;

describe('the reported lease of a Vault token', () => {
  let setup: VaultTestEnvironment;

  beforeEach(async () => {
    setup = new VaultTestEnvironment();
  });
  afterEach(() => setup.close());

  async function start(auth: VaultConfig['auth']): Promise<KeySource> {
    const source = setup.source({ auth });
    source.start();
    await until(() => source.ready(), 'it has logged in');
    return source;
  }

  async function configured(token: object): Promise<VaultConfig['auth']> {
    await setup.open();
    const text = await setup.admin.token({ policies: [roleName], ...token });
    return { method: 'token', token: new Secret(text) };
  }

  /** Advances the clock until the token was looked up or renewed once more. */
  async function advance(milliseconds: number): Promise<void> {
    const before = setup.observed.leases.length;
    setup.clock.advance(milliseconds);
    await until(() => setup.observed.leases.length > before, 'the token was looked up or renewed');
  }

  it('of a login is always whole: near its maximum TTL, a token is replaced', async () => {
    await setup.open({ token_ttl: 3600, token_max_ttl: 5400 });
    await start(await setup.appRole());
    await advance(2400 * second);
    expect(setup.observed.leases).toEqual([3600, 3600]);
  });

  it('of 10 minutes never has less than 20 % left while renewals succeed', async () => {
    await setup.open({ token_ttl: 600, token_max_ttl: 3600 });
    await start(await setup.appRole());
    for (let renewals = 0; renewals < 12; renewals += 1) {
      const wake = setup.clock.nextTimer ?? Number.NaN;
      const [expiry = Number.NaN, lease = Number.NaN] = [
        setup.observed.expiries.at(-1),
        setup.observed.leases.at(-1),
      ];
      const left = expiry - (setup.clock.now() + wake) / second;
      expect(left / lease).toBeGreaterThan(0.2);
      await advance(wake);
    }
  });

  it('of a login whose token cannot be renewed is that of the next login', async () => {
    await setup.open({ token_ttl: 3600, token_type: 'batch' });
    await start(await setup.appRole());
    await advance(2400 * second);
    expect(setup.observed.leases).toEqual([3600, 3600]);
    expect(setup.vault.count(/renew-self/)).toBe(0);
  });

  it('of a configured token that cannot be renewed is the one it was created with', async () => {
    const auth = await configured({ ttl: 30 * dayInSeconds, renewable: false });
    setup.clock.advance(15 * day);
    await start(auth);
    await advance(10 * day);
    expect(setup.observed.leases).toEqual([30 * dayInSeconds, 30 * dayInSeconds]);
    expect(new Set(setup.observed.expiries).size).toBe(1);
    const warning = 'the configured Vault token expires at 2026-01-31T00:00:00.000Z; replace it';
    expect(setup.observed.problems).toEqual([warning, warning]);
  });

  it('of the token of a file is shorter if the file has another token for a shorter time', async () => {
    await setup.open();
    const write = async (ttl: number) =>
      setup.folder.file('token', await setup.admin.token({ policies: [roleName], ttl, renewable: false }));
    await start({ method: 'token', tokenFile: await write(600) });
    setup.clock.advance(399 * second);
    await write(300);
    await advance(2 * second);
    expect(setup.observed.leases).toEqual([600, 300]);
  });

  it('of a configured token does not shrink with its last renewals', async () => {
    await start(await configured({ ttl: 600, explicit_max_ttl: 900 }));
    await advance(400 * second);
    await advance(400 * second);
    expect(setup.observed.leases).toEqual([600, 600, 600]);
  });

  it('of a token that never expires is not reported', async () => {
    await setup.open();
    const source = await start(setup.config().auth);
    setup.clock.advance(30 * day);
    await source.read(acme);
    expect(setup.observed.leases).toEqual([undefined]);
    expect(setup.vault.count(/lookup-self/)).toBe(1);
  });
});
