import type { LoginRef } from '../../keys/key-source.ts';
import { loginRefString } from '../../keys/login-ref.ts';
import type { VaultAdmin } from '../../keys/vault/admin.ts';
import { isVaultError } from '../../keys/vault/errors.ts';
import type { History } from '../../keys/vault/kv2.ts';
import { CliError, messageOf } from '../shared/cli-error.ts';
import { type OptionValues, parsed, wholeNumber } from '../shared/command.ts';
import type { CommonValues } from './options.ts';

export const versionNumber = wholeNumber(1, 999_999_999, 'must be a whole number');

export const writeOptions = {
  cas: parsed('N', 'Check-and-set: expected current version (default: the current one)', versionNumber),
};

type WriteValues = CommonValues & OptionValues<typeof writeOptions> & { readonly create?: boolean };

/**
 * The current version, which the next write must still find; 0 for a login that is to be created.
 *
 * @throws CliError if `--create` is given for an existing login, or missing for a new one (not all commands have it)
 */
export async function expectedVersion(
  admin: VaultAdmin,
  login: LoginRef,
  values: WriteValues,
): Promise<{ readonly current: number; readonly history: History | undefined }> {
  const { cas: expected } = values;
  const history = await admin.versions(login);
  const current = history?.current ?? 0;
  const name = loginRefString(login);
  if (current === 0 && !values.create) {
    const remedy = values.create === undefined ? '' : ', or use --create to create it';
    throw new CliError(`${name} has no secret in Vault. Check the spelling${remedy}. Nothing was written.`);
  }
  if (current > 0 && values.create) {
    throw new CliError(
      `${name} already exists (version ${current}). Omit --create to add a version. Nothing was written.`,
    );
  }
  if (expected !== undefined && expected !== current) throw casConflict(name, expected);
  return { current, history };
}

/** Runs the write of a command. @throws CliError that states whether something was written */
export async function checkAndSet(
  login: LoginRef,
  previousVersion: number,
  write: () => Promise<number>,
): Promise<number> {
  const name = loginRefString(login);
  try {
    return await write();
  } catch (error) {
    if (isVaultError(error, 'cas-mismatch')) throw casConflict(name, previousVersion);
    const uncertain = isVaultError(
      error,
      'unreachable',
      'timeout',
      'failing',
      'invalid-response',
      'too-large',
    );
    if (!uncertain) throw new CliError(`${messageOf(error)}. Nothing was written.`);
    throw new CliError(
      `${error.message}. The new version of ${name} may have been written: check with "countersign keys list".`,
    );
  }
}

function casConflict(name: string, expected: number): CliError {
  const conflict =
    expected === 0 ? `${name} already exists` : `version ${expected} of ${name} is no longer current`;
  return new CliError(
    `${conflict}: the secret was changed concurrently. Nothing was written. Check with "countersign keys list" and retry.`,
  );
}
