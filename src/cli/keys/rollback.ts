import { describeKey } from '../../keys/key.ts';
import { loginRefString } from '../../keys/login-ref.ts';
import { type KeyRing, usableIn } from '../../keys/ring.ts';
import { revealFields } from '../../keys/vault/client.ts';
import type { KeyVersion } from '../../keys/vault/read-ring.ts';
import { transitKeyIn } from '../../keys/vault/transit.ts';
import { CliError, exitCode } from '../shared/cli-error.ts';
import { command, parsed, wholeNumber } from '../shared/command.ts';
import { commonOptions, withVault } from './options.ts';
import { checkAndSet, expectedVersion, stateOf } from './write.ts';

const options = {
  ...commonOptions,
  'to-version N': parsed('Version to restore', wholeNumber(1, 999_999_999, 'must be a whole number')),
};

const spec = {
  name: 'keys rollback',
  usage: '--config FILE --environment NAME --login LOGIN --to-version N [options]',
  about:
    "Restores all fields of an earlier version of the login's secret as a new version, unless the login would lose a key. Never restore a leaked key.",
  options,
};

export const rollBack = command(spec, ({ values }, io) => {
  const { 'to-version': restored } = values;
  if (restored === undefined) throw new CliError('--to-version N is required', exitCode.usage);
  return withVault(values, io, async (vault, login) => {
    const { current: previousVersion, history } = await expectedVersion(vault, login);
    if (restored === previousVersion) {
      throw new CliError(`version ${restored} is already current. Nothing was written.`);
    }
    const old = assertUsable(await vault.readVersion(login, restored), restored);
    const newer = history?.versions.find((info) => info.version > restored && stateOf(info) === 'usable');
    const lost = keyLost(newer && (await vault.readVersion(login, newer.version)), old.keys);
    if (lost !== undefined) {
      throw new CliError(
        `version ${restored} has no usable ${lost.kind}, so the login would lose that of version ${lost.version}. Nothing was written. Restore a version with both keys ("countersign keys list"), or replace one key: "countersign keys import" and "countersign keys generate" keep the other.`,
      );
    }
    const version = await checkAndSet(login, previousVersion, () =>
      vault.kv.write(login, old.fields, previousVersion),
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
  });
});

/** @throws CliError for a version that would leave the login without a usable key */
function assertUsable(old: KeyVersion | undefined, version: number) {
  if (old?.fields === undefined) {
    throw new CliError(`version ${version} does not exist or was deleted. Nothing was written.`);
  }
  if (old.keys.some((entry) => 'key' in entry)) return { fields: old.fields, keys: old.keys };
  throw new CliError(`version ${version} has no usable key. Nothing was written.`);
}

/** A key of the version whose kind the old ones lack. One in Transit counts also if this token may not read it. */
function keyLost(version: KeyVersion | undefined, old: KeyRing): KeyRing[number] | undefined {
  const isInTransit = transitKeyIn(revealFields(version?.fields ?? {})['transit_key']) !== undefined;
  return version?.keys.find(
    (key) =>
      ('key' in key || (key.kind === 'private_key' && isInTransit)) &&
      !usableIn(old).some(({ kind }) => kind === key.kind),
  );
}
