import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { acme, controlKeys, day, VaultTestEnvironment } from '../support/stub-vault/harness.ts';

const hour = 3_600_000;
const path = 'gateway/sandbox/acme';

describe('versions of a secret in Vault', () => {
  let setup: VaultTestEnvironment;

  beforeEach(async () => {
    setup = await new VaultTestEnvironment().open();
  });
  afterEach(() => setup.close());

  const put = (data: object) => setup.admin.put(path, data);
  const read = () => setup.source().read(acme);

  it('leave the ring when the next version is older than the grace period', async () => {
    await put({ control_key: 'first' });
    setup.clock.advance(100 * hour);
    await put({ control_key: 'second' });
    setup.clock.advance(23 * hour);
    await put({ control_key: 'third' });
    setup.clock.advance(hour / 2);
    expect(controlKeys(await read())).toEqual(['3:third', '2:second', '1:first']);
    setup.clock.advance(hour / 2);
    expect(controlKeys(await read())).toEqual(['3:third', '2:second']);
    setup.clock.advance(23 * hour);
    expect(controlKeys(await read())).toEqual(['3:third']);
  });

  it('have the times at which they were created and superseded', async () => {
    await put({ control_key: 'first' });
    const first = new Date(setup.clock.now());
    setup.clock.advance(hour);
    await put({ control_key: 'second' });
    const second = new Date(setup.clock.now());
    expect((await read())?.map(({ createdAt, supersededAt }) => [createdAt, supersededAt])).toEqual([
      [second, undefined],
      [first, second],
    ]);
  });

  it('are read four back and no further', async () => {
    for (const control_key of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) await put({ control_key });
    expect(controlKeys(await read())).toEqual(['7:g', '6:f', '5:e', '4:d', '3:c']);
  });

  it('are superseded by a deleted version as by any other', async () => {
    await put({ control_key: 'first' });
    setup.clock.advance(hour);
    await put({ control_key: 'second' });
    setup.clock.advance(20 * hour);
    await put({ control_key: 'third' });
    await setup.admin.deleteVersions(path, [2]);
    expect(controlKeys(await read())).toEqual(['3:third', '1:first']);
    setup.clock.advance(5 * hour);
    expect(controlKeys(await read())).toEqual(['3:third']);
  });

  it('that Vault has removed end the ring', async () => {
    await setup.admin.request('POST', `secret/metadata/${path}`, { max_versions: 2 });
    for (const control_key of ['first', 'second', 'third']) await put({ control_key });
    expect(controlKeys(await read())).toEqual(['3:third', '2:second']);
  });

  it('cost one request once the grace period is over', async () => {
    await put({ control_key: 'first' });
    await put({ control_key: 'second' });
    setup.clock.advance(2 * day);
    setup.vault.seen.length = 0;
    await read();
    expect(setup.vault.count(/GET secret/)).toBe(1);
  });

  it('are not read to learn the number of the current one, which is none once it is deleted', async () => {
    await put({ control_key: 'first' });
    await put({ control_key: 'second' });
    setup.vault.seen.length = 0;
    expect(await setup.source().readCurrent(acme)).toBe(2);
    expect(setup.vault.count(/GET secret/)).toBe(1);
    await setup.admin.deleteVersions(path, [2]);
    expect(await setup.source().readCurrent(acme)).toBeUndefined();
  });

  it('can have an unusable key beside a usable one', async () => {
    await put({ control_key: 'first', private_key: 42 });
    expect(await read()).toEqual([
      expect.objectContaining({ kind: 'control_key', version: 1, key: expect.anything() }),
      expect.objectContaining({ kind: 'private_key', version: 1, problem: expect.any(String) }),
    ]);
  });
});
