import { expect, it } from '@jest/globals';
import { parseKeys } from '../../../../src/keys/key.ts';
import { usableIn } from '../../../../src/keys/ring.ts';
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
  const known = usableIn(versionOf(1, new Date(1_000), 'old').keys).map((key) => ({
    ...key,
    isAccepted: true as const,
  }));
  const stored = [versionOf(2, new Date(3_000), 'new'), versionOf(1, deletedVersionCreatedAt)];
  const reading = await readRing(async (version = 2) => stored.find((one) => one.version === version), {
    gracePeriodBegan: 0,
    known,
    isSearch: false,
  });
  expect(reading).toMatchObject({ ring: [{ version: 2 }], gone: gone.map((version) => ({ version })) });
});
