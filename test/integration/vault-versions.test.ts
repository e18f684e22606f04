import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { KeyReading } from '../../src/keys/key-source.ts';
import { type KeyRing, type UsableKey, usableIn } from '../../src/keys/ring.ts';
import { acme, controlKeys, day, VaultTestEnvironment } from '../support/stub-vault/harness.ts';
import { vectorText } from '../support/vectors.ts';

const hour = 3_600_000;
const path = 'gateway/sandbox/acme';
const pems = ['keys/rsa-2048-pkcs8.pem', 'keys/rsa-4096-pkcs8.pem'].map(vectorText);

describe('versions of a secret in Vault', () => {
  let setup: VaultTestEnvironment;

  beforeEach(async () => {
    setup = await new VaultTestEnvironment().open();
  });
  afterEach(() => setup.close());

  const put = (data: object) => setup.admin.put(path, data);
  type Known = [ring?: KeyRing, accepted?: readonly UsableKey[]];
  const read = (...known: Known) => setup.source().read(acme, ...known);
  /** The reading of a login that has keys. */
  async function found(...known: Known): Promise<KeyReading> {
    const reading = await read(...known);
    if (typeof reading === 'string') throw new Error(`no keys: ${reading}`);
    return reading;
  }
  /** What is known after the gateway accepted this control key. */
  async function foundAfterAccepting(version: number): Promise<Known> {
    const { ring } = await found();
    return [ring, usableIn(ring).filter((entry) => entry.version === version)];
  }

  it('leave the ring when the next version is older than the grace period', async () => {
    await put({ control_key: 'first' });
    setup.clock.advance(100 * hour);
    await put({ control_key: 'second' });
    setup.clock.advance(23 * hour);
    await put({ control_key: 'third' });
    setup.clock.advance(hour / 2);
    const { ring } = await found();
    expect(controlKeys(ring)).toEqual(['3:third', '2:second', '1:first']);
    setup.clock.advance(hour / 2);
    expect(controlKeys(await read(ring))).toEqual(['3:third', '2:second']);
    setup.clock.advance(23 * hour);
    expect(controlKeys(await read(ring))).toEqual(['3:third']);
  });

  it('are superseded by a deleted version as by any other, which is no reason to say that a newer one lacks a key', async () => {
    await put({ control_key: 'first', private_key: pems[0] });
    setup.clock.advance(hour);
    await put({ control_key: 'second' });
    setup.clock.advance(20 * hour);
    await put({ control_key: 'third' });
    await setup.admin.deleteVersions(path, [2]);
    expect(controlKeys(await read())).toEqual(['3:third', '1:first', '1:-']);
    setup.clock.advance(5 * hour);
    expect(controlKeys(await read())).toEqual(['3:third']);
  });

  it('count each key once, however often it was written', async () => {
    await put({ control_key: 'accepted' });
    for (let write = 0; write < 8; write += 1) await put({ control_key: 'new', note: write });
    expect(controlKeys(await read())).toEqual(['9:new', '1:accepted']);
  });

  it('count by kind of key', async () => {
    await put({ control_key: 'a', private_key: 'r0' });
    for (const private_key of [pems[0], pems[1]]) await put({ control_key: 'a', private_key });
    for (const control_key of ['b', 'c', 'd', 'e']) await put({ control_key, private_key: pems[1] });
    const usable = (await found()).ring.filter((entry) => 'key' in entry);
    expect(usable.map(({ kind, version }) => `${kind} ${version}`).sort()).toEqual([
      'control_key 5',
      'control_key 6',
      'control_key 7',
      'private_key 2',
      'private_key 7',
    ]);
  });

  describe('of which the gateway accepted one', () => {
    beforeEach(async () => {
      await put({ control_key: 'accepted' });
    });

    it('keep it beyond the grace period and beyond the ten, with one request', async () => {
      const known = await foundAfterAccepting(1);
      await setup.admin.request('POST', `secret/metadata/${path}`, { max_versions: 20 });
      for (let write = 0; write < 12; write += 1) await put({ control_key: 'other' });
      setup.clock.advance(2 * day);
      setup.vault.seen.length = 0;
      expect(controlKeys(await read(...known))).toEqual(['13:other', '1:accepted']);
      expect(setup.vault.count(/GET secret/)).toBe(2);
    });

    it('have it still if all of them are newer and were deleted', async () => {
      const known = await foundAfterAccepting(1);
      await put({ control_key: 'bad' });
      setup.clock.advance(2 * day);
      await setup.admin.deleteVersions(path, [2]);
      expect(controlKeys(await read(...known))).toEqual(['1:accepted']);
      expect(await read()).toBe('deleted');
      await setup.admin.deleteVersions(path, [1]);
      expect(await read(...known)).toBe('deleted');
    });

    it('do not have it if another secret has its number', async () => {
      const known = await foundAfterAccepting(1);
      await setup.admin.request('DELETE', `secret/metadata/${path}`);
      setup.clock.advance(hour);
      await put({ control_key: 'other' });
      const { ring, gone } = await found(...known);
      expect([controlKeys(ring), controlKeys(gone)]).toEqual([['1:other'], ['1:accepted']]);
    });
  });

  describe('of which the newest lacks a key', () => {
    const lacking = expect.objectContaining({
      kind: 'private_key',
      version: 2,
      problem: 'the newest version lacks the field private_key (its fields: control_key)',
    });
    beforeEach(async () => {
      await put({ control_key: 'a', private_key: pems[0] });
      await put({ control_key: 'b' });
    });

    it('say so, and start no grace period for it', async () => {
      const { ring } = await found();
      expect(ring).toContainEqual(lacking);
      const older = ring.find((entry) => entry.kind === 'private_key' && 'key' in entry);
      expect(older).toMatchObject({ version: 1 });
      expect(older?.supersededAt).toBeUndefined();
      setup.clock.advance(3 * day);
      const later = (await found(ring)).ring;
      expect(later.map(({ kind, version }) => `${kind} ${version}`)).toEqual([
        'private_key 2',
        'control_key 2',
        'private_key 1',
      ]);
    });

    it('start its grace period with the next one that has it', async () => {
      setup.clock.advance(3 * day);
      await put({ control_key: 'b', private_key: pems[1] });
      const now = new Date(setup.clock.now());
      const { ring } = await found();
      expect(ring).not.toContainEqual(lacking);
      const ofKind = ring.filter(({ kind }) => kind === 'private_key');
      expect(ofKind.map(({ version, supersededAt }) => [version, supersededAt])).toEqual([
        [3, undefined],
        [1, now],
      ]);
    });

    it('are deleted with it: it was superseded when that was written', async () => {
      setup.clock.advance(3 * day);
      const { ring } = await found();
      await setup.admin.deleteVersions(path, [2]);
      expect(await read(ring)).toBe('deleted');
    });
  });

  it('start no grace period with fields of other names, or with a key that cannot be used', async () => {
    await put({ control_key: 'good' });
    await put({ controlkey: 'bad' });
    await put({ control_key: '' });
    setup.clock.advance(3 * day);
    const { ring } = await found();
    expect(ring.map(({ version, supersededAt }) => [version, supersededAt])).toEqual([
      [3, undefined],
      [2, undefined],
      [1, undefined],
    ]);
    expect(ring[1]).toMatchObject({
      problem: expect.stringContaining('no field control_key but controlkey'),
    });
  });
});
