import { expect, it } from '@jest/globals';
import { parseKeys } from '../../../../src/keys/key.ts';
import { ringIn } from '../../../../src/keys/key-source.ts';
import { type KeyRing, usableIn } from '../../../../src/keys/ring.ts';
import { type KeyVersion, readRing } from '../../../../src/keys/vault/read-ring.ts';

function versionOf(version: number, createdAt: Date, controlKey?: string): KeyVersion {
  if (controlKey === undefined) return { version, createdAt, keys: [] };
  const fields = { control_key: controlKey };
  return { version, createdAt, fields, keys: parseKeys(fields, { version, createdAt }) };
}

it.each([
  ['is used no more if its version was deleted', new Date(1_000), []],
  ['stays in use if another secret has a deleted version of that number', new Date(2_000), [1]],
])('the key that the gateway accepted last %s', async (_what, deletedVersionCreatedAt, gone) => {
  const known = usableIn(versionOf(1, new Date(1_000), 'old').keys);
  const stored = [versionOf(2, new Date(3_000), 'new'), versionOf(1, deletedVersionCreatedAt)];
  const reading = await readRing(async (version = 2) => stored.find((one) => one.version === version), {
    gracePeriodBegan: 0,
    known,
    accepted: known,
  });
  expect(reading).toMatchObject({ ring: [{ version: 2 }], gone: gone.map((version) => ({ version })) });
});

/** Versions 1 to `count` of control keys, with a private key, unusable here, in the first one only; newest first. */
function storedVersions(count: number): KeyVersion[] {
  return Array.from({ length: count }, (_, index) => {
    const version = count - index;
    const createdAt = new Date(version * 1_000);
    const fields = { control_key: `key ${version}`, ...(version === 1 ? { private_key: 'no PEM' } : {}) };
    return { version, createdAt, fields, keys: parseKeys(fields, { version, createdAt }) };
  });
}

/** The versions that a read asks for, and those in its ring. */
async function readOf(stored: readonly KeyVersion[], gracePeriodBegan: number, known: KeyRing = []) {
  const asked: number[] = [];
  const readVersion = async (version = stored.length): Promise<KeyVersion | undefined> => {
    asked.push(version);
    return stored.find((one) => one.version === version);
  };
  const reading = await readRing(readVersion, { gracePeriodBegan, known, accepted: [] });
  return { asked, ring: ringIn(reading)?.map(({ kind, version }) => `${kind} ${version}`) };
}

it('a first read searches ten versions for both kinds of key; a later one ends with the grace period', async () => {
  const stored = storedVersions(12);
  const { asked } = await readOf(stored, 12_000);
  expect(asked).toEqual([12, 11, 10, 9, 8, 7, 6, 5, 4, 3]);
  expect(await readOf(stored, 12_000, stored[0]?.keys)).toEqual({ asked: [12], ring: ['control_key 12'] });
});
