import { access, writeFile } from 'node:fs/promises';
import { describeKey, type KeyDescription } from '../../keys/describe.ts';
import { type KeyFields, parseKeys } from '../../keys/key.ts';
import type { LoginRef } from '../../keys/key-source.ts';
import { loginRefString } from '../../keys/login-ref.ts';
import type { VaultAdmin } from '../../keys/vault/admin.ts';
import { isVaultError } from '../../keys/vault/errors.ts';
import type { History, VersionInfo } from '../../keys/vault/kv2.ts';
import { CliError } from '../shared/cli-error.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { messageOf } from '../shared/parse-options.ts';
import type { CommonValues } from './options.ts';

/** Options of the subcommands that write. */
export const writeOptions = {
  cas: { type: 'string' },
} as const;
export const addOptions = {
  ...writeOptions,
  create: { type: 'boolean', default: false },
  'public-key': { type: 'string' },
} as const;

export const writeUsage = `  --cas N  write only if N is the newest version (default: the one that is newest now)`;
export const addUsage = `${writeUsage}
  --create            for a login that has no secret yet; without it the login must have one
  --public-key FILE   also write the public key into this new file`;

export interface WriteValues extends CommonValues {
  readonly cas?: string;
  readonly create?: boolean;
}

/**
 * The number of the newest version, which has to be the newest still when the next one is written; 0 for a
 * login that is to be created.
 *
 * @throws Stop where the login is there and should not be, or the other way round.
 */
export async function expectedVersion(
  store: VaultAdmin,
  address: LoginRef,
  values: WriteValues,
): Promise<{ readonly current: number; readonly history: History | undefined }> {
  const expected = wholeNumber(values['cas'], '--cas');
  const history = await store.versions(address);
  const current = history?.current ?? 0;
  const name = loginRefString(address);
  if (current === 0 && !values.create) {
    throw new CliError(
      `${name} has no secret in Vault. Is the login spelt right? --create adds it. Nothing was written.`,
    );
  }
  if (current > 0 && values.create) {
    throw new CliError(
      `${name} is there already, at version ${current}. Without --create a new version is written. Nothing was written.`,
    );
  }
  if (expected !== undefined && expected !== current) throw casConflict(name, expected);
  return { current, history };
}

/**
 * As {@link expectedVersion}, for a command that keeps the other fields of the newest version: they have to be
 * readable, or the login's other key would be lost.
 *
 * @throws Stop where the newest version is deleted or destroyed and may still be replaced by an earlier one.
 */
export async function versionToExtend(
  store: VaultAdmin,
  address: LoginRef,
  values: WriteValues,
): Promise<number> {
  const { current, history } = await expectedVersion(store, address, values);
  const states = (history?.versions ?? []).map((info) => ({ version: info.version, state: stateOf(info) }));
  const newest = states.find(({ version }) => version === current);
  const living = states.find(({ state }) => state === 'living')?.version;
  if (newest === undefined || newest.state === 'living') return current;
  // Where all is destroyed there is nothing left to lose.
  if (newest.state === 'destroyed' && states.every(({ state }) => state === 'destroyed')) return current;
  const ways = [
    ...(newest.state === 'deleted' ? ['undelete it ("vault kv undelete")'] : []),
    ...(living === undefined
      ? []
      : [`restore an earlier version ("countersign keys rollback --to ${living}")`]),
    ...(newest.state === 'destroyed' && living === undefined ? ['undelete an earlier version'] : []),
  ];
  throw new CliError(
    `Version ${current} of ${loginRefString(address)}, the newest, is ${newest.state}: a new version would not keep the login's other key. Nothing was written. First ${ways.join(', or ')}; then run this command again.`,
  );
}

function stateOf({ destroyed, deletedAt }: VersionInfo): 'living' | 'deleted' | 'destroyed' {
  if (destroyed) return 'destroyed';
  return deletedAt !== undefined && deletedAt.getTime() <= Date.now() ? 'deleted' : 'living';
}

/** @throws Stop for a text that is no whole number above zero. */
export function wholeNumber(text: string | undefined, option: string): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new CliError(`${option} takes a whole number`, exitCode.usage);
  return Number(text);
}

/** Does the one write of a command, and says what is certain when it fails. @throws Stop */
export async function checkAndSet(
  address: LoginRef,
  before: number,
  write: () => Promise<number>,
): Promise<number> {
  const name = loginRefString(address);
  try {
    return await write();
  } catch (error) {
    if (isVaultError(error, 'cas-mismatch')) throw casConflict(name, before);
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
      `${error.message}. Whether the new version of ${name} was written is not known: look with "countersign keys list".`,
    );
  }
}

function casConflict(name: string, expected: number): CliError {
  const what =
    expected === 0 ? `${name} is there by now` : `Version ${expected} of ${name} is not the newest`;
  return new CliError(
    `${what}: somebody else has written meanwhile. Nothing was written. Look with "countersign keys list", then decide again.`,
  );
}

/** What may be told of a new key. @throws Stop for one that could not be used, before anything is written. */
export function validateNewKey(fields: KeyFields): KeyDescription {
  const [entry] = parseKeys(fields, { version: 0 });
  if (entry === undefined) throw new TypeError('no key was given');
  if ('problem' in entry) throw new CliError(`${entry.problem}. Nothing was written.`);
  return describeKey(entry);
}

/** @throws Stop for a file that is there: it may be the public key that the gateway was given. */
export async function checkNewFile(file: string | undefined): Promise<void> {
  if (file === undefined) return;
  const isThere = await access(file).then(
    () => true,
    () => false,
  );
  if (isThere) throw new CliError(`${file} is there already. Name a new file. Nothing was written.`);
}

/** What was written. */
export interface WriteResult extends KeyDescription {
  readonly address: LoginRef;
  readonly version: number;
  readonly previousVersion: number;
}

/** Prints what was written, and puts the public key into a file where one is named. Gives the exit code. */
export async function reportWritten(
  written: WriteResult,
  { json, 'public-key': file }: CommonValues & { readonly 'public-key'?: string },
  io: Io,
): Promise<number> {
  const { address, version, previousVersion: before, kind, bits, fingerprint, publicKey } = written;
  if (json) {
    const facts = { version, previousVersion: before, kind, bits, fingerprint, publicKey };
    io.out(JSON.stringify({ ...address, ...facts }, null, 2));
  } else {
    const what = publicKey === undefined ? 'a new control key' : `a new RSA key of ${bits} bits`;
    io.out(`Version ${version} of ${loginRefString(address)} is written, with ${what}.`);
    if (publicKey !== undefined) io.out(`Public key, SHA-256 ${fingerprint}\n${publicKey}`);
  }
  if (file === undefined || publicKey === undefined) return exitCode.done;
  try {
    await writeFile(file, `${publicKey}\n`, { flag: 'wx' });
    return exitCode.done;
  } catch (error) {
    io.err(
      `The public key could not be written to ${file} (${messageOf(error)}): take it from above. The new version is in Vault.`,
    );
    return exitCode.failed;
  }
}
