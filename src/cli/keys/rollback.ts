import { describeKey } from '../../keys/key.ts';
import { loginRefString } from '../../keys/login-ref.ts';
import type { StoredVersion } from '../../keys/vault/admin.ts';
import { CliError } from '../shared/cli-error.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { optionsHelp, parseOptions } from '../shared/parse-options.ts';
import { commonOptions, loginRefOf, withKeysContext, withVaultAdmin } from './options.ts';
import { checkAndSet, expectedVersion, versionFrom, writeOptions } from './write.ts';

const options = {
  ...commonOptions,
  'to-version': { type: 'string', value: 'N', description: 'Version to restore' },
  ...writeOptions,
} as const;

const usage = `Usage: countersign keys rollback --config FILE --environment NAME --login LOGIN --to-version N [options]

Restores all fields of an earlier version of the login's secret as a new version. Never restore a leaked key.

${optionsHelp(options)}`;

export async function rollBack(argv: readonly string[], io: Io): Promise<number> {
  const parsed = parseOptions('keys rollback', argv, options, usage, io);
  if ('exit' in parsed) return parsed.exit;
  const { values } = parsed;
  if (values['to-version'] === undefined) throw new CliError('--to-version N is required', exitCode.usage);
  const restored = versionFrom('--to-version', values['to-version']);
  return withKeysContext(values, io, (context) =>
    withVaultAdmin(context, async (admin) => {
      const login = loginRefOf(context, values);
      const { current: previousVersion } = await expectedVersion(admin, login, values);
      if (restored === previousVersion) {
        throw new CliError(`version ${restored} is already current. Nothing was written.`);
      }
      const old = assertUsable(await admin.readVersion(login, restored), restored);
      const version = await checkAndSet(login, previousVersion, () =>
        admin.replace(login, old.fields, previousVersion),
      );
      const keys = old.keys.map(describeKey);
      if (values.json) {
        const result = { ...login, version, previousVersion, contentOf: restored, keys };
        io.out(JSON.stringify(result, null, 2));
        return exitCode.done;
      }
      io.out(`Wrote version ${version} of ${loginRefString(login)} (content of version ${restored})`);
      for (const { kind, fingerprint, transitKey, problem } of keys) {
        const inVault = transitKey && `(Transit key ${transitKey})`;
        const parts = [kind, problem ?? fingerprint, inVault];
        io.out(`  ${parts.filter((part) => part !== undefined).join('  ')}`);
      }
      return exitCode.done;
    }),
  );
}

/** @throws CliError for a version that would leave the login without a usable key */
function assertUsable(old: StoredVersion | undefined, version: number): StoredVersion {
  if (old === undefined) {
    throw new CliError(`version ${version} does not exist or was deleted. Nothing was written.`);
  }
  if (old.keys.some((entry) => 'key' in entry)) return old;
  throw new CliError(`version ${version} has no usable key. Nothing was written.`);
}
