import { describeKey } from '../../keys/describe.ts';
import { loginRefString } from '../../keys/login-ref.ts';
import type { StoredVersion } from '../../keys/vault/admin.ts';
import { CliError } from '../shared/cli-error.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { parseOptions } from '../shared/parse-options.ts';
import { commonOptions, commonUsage, loginRefOf, withKeysContext, withVaultAdmin } from './options.ts';
import { checkAndSet, expectedVersion, wholeNumber, writeOptions, writeUsage } from './write.ts';

const usage = `Usage: countersign keys rollback --config FILE --environment NAME --login LOGIN --to VERSION [options]

Writes what an earlier version of the login's secret held, all of its fields, as a new version. Never bring
back a key that has leaked.

${commonUsage}
  --to VERSION        the earlier version
${writeUsage}`;

const options = { ...commonOptions, ...writeOptions, to: { type: 'string' } } as const;

export async function rollBack(argv: readonly string[], io: Io): Promise<number> {
  const read = parseOptions('keys rollback', argv, options, usage, io);
  if ('exit' in read) return read.exit;
  const { values } = read;
  const to = wholeNumber(values.to, '--to');
  if (to === undefined) throw new CliError('--to VERSION is needed', exitCode.usage);
  return withKeysContext(values, io, (place) =>
    withVaultAdmin(place, async (store) => {
      const address = loginRefOf(place, values);
      const { current: before } = await expectedVersion(store, address, values);
      if (to === before) throw new CliError(`Version ${to} is the newest already. Nothing was written.`);
      const old = usable(await store.readVersion(address, to), to);
      const version = await checkAndSet(address, before, () => store.replace(address, old.fields, before));
      const keys = old.keys.map(describeKey);
      if (values.json) {
        io.out(
          JSON.stringify({ ...address, version, previousVersion: before, contentOf: to, keys }, null, 2),
        );
        return exitCode.done;
      }
      io.out(
        `Version ${version} of ${loginRefString(address)} is written, with the content of version ${to}:`,
      );
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
    throw new CliError(`Version ${to} has never been, or is deleted or destroyed. Nothing was written.`);
  }
  if (old.keys.some((entry) => 'key' in entry)) return old;
  throw new CliError(`Version ${to} has no key that could be used. Nothing was written.`);
}
