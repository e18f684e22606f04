import { addressName } from '../keys/address.ts';
import type { StoredVersion } from '../keys/vault/store.ts';
import { exitCode, type Io } from './io.ts';
import { keyFacts } from './key-facts.ts';
import { addressOf, atPlace, atStore, commonOptions, commonUsage } from './keys-common.ts';
import { checkAndSet, versionBefore, wholeNumber, writeOptions, writeUsage } from './keys-write.ts';
import { readOptions } from './options.ts';
import { Stop } from './stop.ts';

const usage = `Usage: countersign keys rollback --config FILE --environment NAME --login LOGIN --to VERSION [options]

Writes what an earlier version of the login's secret held, all of its fields, as a new version. Never bring
back a key that has leaked.

${commonUsage}
  --to VERSION        the earlier version
${writeUsage}`;

const options = { ...commonOptions, ...writeOptions, to: { type: 'string' } } as const;

export async function rollBack(argv: readonly string[], io: Io): Promise<number> {
  const read = readOptions('keys rollback', argv, options, usage, io);
  if ('exit' in read) return read.exit;
  const { values } = read;
  const to = wholeNumber(values.to, '--to');
  if (to === undefined) throw new Stop('--to VERSION is needed', exitCode.usage);
  return atPlace(values, io, (place) =>
    atStore(place, async (store) => {
      const address = addressOf(place, values);
      const { current: before } = await versionBefore(store, address, values);
      if (to === before) throw new Stop(`Version ${to} is the newest already. Nothing was written.`);
      const old = usable(await store.readVersion(address, to), to);
      const version = await checkAndSet(address, before, () => store.replace(address, old.fields, before));
      const keys = old.keys.map(keyFacts);
      if (values.json) {
        io.out(
          JSON.stringify({ ...address, version, previousVersion: before, contentOf: to, keys }, null, 2),
        );
        return exitCode.done;
      }
      io.out(`Version ${version} of ${addressName(address)} is written, with the content of version ${to}:`);
      for (const { kind, fingerprint, problem } of keys) {
        io.out(`  ${[kind, problem ?? fingerprint].filter((part) => part !== undefined).join('  ')}`);
      }
      return exitCode.done;
    }),
  );
}

/** @throws Stop for a version that would leave the login without a key. */
function usable(old: StoredVersion | undefined, to: number): StoredVersion {
  if (old === undefined) {
    throw new Stop(`Version ${to} has never been, or is deleted or destroyed. Nothing was written.`);
  }
  if (old.keys.some((entry) => 'key' in entry)) return old;
  throw new Stop(`Version ${to} has no key that could be used. Nothing was written.`);
}
