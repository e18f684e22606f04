import { access, writeFile } from 'node:fs/promises';
import { describeKey, type KeyDescription, type KeyFields, parseKeys } from '../../keys/key.ts';
import { type LoginRef, loginRefString } from '../../keys/login-ref.ts';
import { hideFields } from '../../keys/vault/client.ts';
import { isVaultError } from '../../keys/vault/errors.ts';
import type { History, VersionInfo } from '../../keys/vault/kv2.ts';
import type { VaultConnection } from '../../keys/vault/source.ts';
import { CliError, exitCode, messageOf } from '../shared/cli-error.ts';
import type { Io, OptionValues } from '../shared/command.ts';
import { type CommonValues, withVault } from './options.ts';

export const addOptions = {
  create: 'Create the secret of a new login; without it, the login must already have one',
  'public-key FILE': 'Also save the public key to FILE (must not exist)',
};

type AddValues = CommonValues & OptionValues<typeof addOptions>;

/** The fields of the new key; `undefined` for those to remove. */
export type NewKey = (vault: VaultConnection, login: LoginRef) => Promise<KeyFields>;

/**
 * Writes a new version of a login's secret with another key, and prints it.
 *
 * @param newKey called when the version can be written
 * @returns the exit code
 */
export function addKey(values: AddValues, io: Io, newKey: NewKey): Promise<number> {
  return withVault(values, io, async (vault, login) => {
    await checkNewFile(values['public-key']);
    const previousVersion = await versionToExtend(vault, login, values);
    const fields = await newKey(vault, login);
    const description = await validateNewKey(fields, vault, login);
    const version = await checkAndSet(login, previousVersion, () =>
      vault.kv.extend(login, hideFields(fields), previousVersion),
    );
    return reportWritten({ ...description, login, version, previousVersion }, values, io);
  });
}

/**
 * As {@link expectedVersion}, for a command that keeps the other fields of the current version. They must be readable,
 * or the login's other key would be lost.
 *
 * @throws CliError if the current version is deleted or destroyed and an earlier one may be restored
 */
async function versionToExtend(vault: VaultConnection, login: LoginRef, values: AddValues): Promise<number> {
  const { current, history } = await expectedVersion(vault, login, values);
  const states = (history?.versions ?? []).map((info) => ({ version: info.version, state: stateOf(info) }));
  const newest = states.find(({ version }) => version === current);
  const usable = states.find(({ state }) => state === 'usable')?.version;
  if (newest === undefined || newest.state === 'usable') return current;
  // If all versions are destroyed, there is nothing left to lose.
  if (newest.state === 'destroyed' && states.every(({ state }) => state === 'destroyed')) return current;
  const remedies = [
    ...(newest.state === 'deleted' ? ['undelete it ("vault kv undelete")'] : []),
    ...(usable === undefined
      ? []
      : [`restore an earlier version ("countersign keys rollback --to-version ${usable}")`]),
    ...(newest.state === 'destroyed' && usable === undefined ? ['undelete an earlier version'] : []),
  ];
  throw new CliError(
    `the current version ${current} of ${loginRefString(login)} is ${newest.state}: a new version would lose the login's other key. Nothing was written. First ${remedies.join(', or ')}; then retry.`,
  );
}

export function stateOf({ destroyed, deletedAt }: VersionInfo): 'usable' | 'deleted' | 'destroyed' {
  if (destroyed) return 'destroyed';
  return deletedAt !== undefined && deletedAt.getTime() <= Date.now() ? 'deleted' : 'usable';
}

/** Describes a new key before it is written. @throws CliError for an unusable key */
async function validateNewKey(
  fields: KeyFields,
  vault: VaultConnection,
  login: LoginRef,
): Promise<KeyDescription> {
  const { transit_key: reference } = fields;
  const transit =
    typeof reference === 'string' ? await vault.transit.find(login.environment, reference) : undefined;
  const [entry] = parseKeys(fields, { version: 0 }, transit);
  if (entry === undefined) throw new TypeError('no key was given');
  if ('problem' in entry) throw new CliError(`${entry.problem}. Nothing was written.`);
  return describeKey(entry);
}

/** @throws CliError for an existing file: it may be the public key that the gateway received */
async function checkNewFile(file: string | undefined): Promise<void> {
  if (file === undefined) return;
  const exists = await access(file).then(
    () => true,
    () => false,
  );
  if (exists) throw new CliError(`${file} already exists. Name a new file. Nothing was written.`);
}

interface WriteResult extends KeyDescription {
  readonly login: LoginRef;
  readonly version: number;
  readonly previousVersion: number;
}

/** Prints what was written, and saves the public key if a file is named. @returns the exit code */
async function reportWritten(
  written: WriteResult,
  { json, 'public-key': file }: AddValues,
  io: Io,
): Promise<number> {
  const { login, version, previousVersion, kind, bits, fingerprint, transitKey, publicKey } = written;
  if (json) {
    const result = { ...login, version, previousVersion, kind, bits, fingerprint, transitKey, publicKey };
    io.out(JSON.stringify(result, null, 2));
  } else {
    const rsa = `new RSA key, ${bits} bits${transitKey === undefined ? '' : `, Transit key ${transitKey}`}`;
    const content = publicKey === undefined ? `new control key, fingerprint ${fingerprint}` : rsa;
    io.out(`Wrote version ${version} of ${loginRefString(login)} (${content})`);
    if (publicKey !== undefined) io.out(`Public key, SHA-256 ${fingerprint}\n${publicKey}`);
  }
  if (file === undefined || publicKey === undefined) return exitCode.done;
  try {
    await writeFile(file, `${publicKey}\n`, { flag: 'wx' });
    return exitCode.done;
  } catch (error) {
    io.err(
      `Failed to write the public key to ${file} (${messageOf(error)}): copy it from the output above. The new version is in Vault.`,
    );
    return exitCode.failed;
  }
}

/**
 * The current version, which the next write must still find; 0 for a login that is to be created.
 *
 * @throws CliError if `--create` is given for an existing login, or missing for a new one (not all commands have it)
 */
export async function expectedVersion(
  vault: VaultConnection,
  login: LoginRef,
  { create }: { readonly create?: boolean } = {},
): Promise<{ readonly current: number; readonly history: History | undefined }> {
  const history = await vault.kv.history(login);
  const current = history?.current ?? 0;
  const name = loginRefString(login);
  if (current === 0 && !create) {
    const remedy = create === undefined ? '' : ', or use --create to create it';
    throw new CliError(`${name} has no secret in Vault. Check the spelling${remedy}. Nothing was written.`);
  }
  if (current > 0 && create) {
    throw new CliError(
      `${name} already exists (version ${current}). Omit --create to add a version. Nothing was written.`,
    );
  }
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
