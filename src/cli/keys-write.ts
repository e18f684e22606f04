import { access, writeFile } from 'node:fs/promises';
import { addressName } from '../keys/address.ts';
import { type KeyFields, parseKeys } from '../keys/key.ts';
import type { KeyAddress } from '../keys/source.ts';
import type { History, VersionInfo } from '../keys/vault/kv.ts';
import { isProblem } from '../keys/vault/problem.ts';
import type { VaultStore } from '../keys/vault/store.ts';
import { exitCode, type Io } from './io.ts';
import { type KeyFacts, keyFacts } from './key-facts.ts';
import type { CommonValues } from './keys-common.ts';
import { messageOf } from './options.ts';
import { Stop } from './stop.ts';

/** Options of the subcommands that write. */
export const writeOptions = {
  'version-expected': { type: 'string' },
} as const;
export const addOptions = {
  ...writeOptions,
  create: { type: 'boolean', default: false },
  'public-key': { type: 'string' },
} as const;

export const writeUsage = `  --version-expected N  write only if N is the newest version (default: the one that is newest now)`;
export const addUsage = `${writeUsage}
  --create            for a login that has no secret yet; without it the login must have one
  --public-key FILE   also write the public key into this new file`;

export interface WriteValues extends CommonValues {
  readonly 'version-expected'?: string;
  readonly create?: boolean;
}

/**
 * The number of the newest version, which has to be the newest still when the next one is written; 0 for a
 * login that is to be created.
 *
 * @throws Stop where the login is there and should not be, or the other way round.
 */
export async function versionBefore(
  store: VaultStore,
  address: KeyAddress,
  values: WriteValues,
): Promise<{ readonly current: number; readonly history: History | undefined }> {
  const expected = wholeNumber(values['version-expected'], '--version-expected');
  const history = await store.versions(address);
  const current = history?.current ?? 0;
  const name = addressName(address);
  if (current === 0 && !values.create) {
    throw new Stop(
      `${name} has no secret in Vault. Is the login spelt right? --create adds it. Nothing was written.`,
    );
  }
  if (current > 0 && values.create) {
    throw new Stop(
      `${name} is there already, at version ${current}. Without --create a new version is written. Nothing was written.`,
    );
  }
  if (expected !== undefined && expected !== current) throw changed(name, expected);
  return { current, history };
}

/**
 * As {@link versionBefore}, for a command that keeps the other fields of the newest version: they have to be
 * readable, or the login's other key would be lost.
 *
 * @throws Stop where the newest version is deleted or destroyed and may still be replaced by an earlier one.
 */
export async function versionToExtend(
  store: VaultStore,
  address: KeyAddress,
  values: WriteValues,
): Promise<number> {
  const { current, history } = await versionBefore(store, address, values);
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
  throw new Stop(
    `Version ${current} of ${addressName(address)}, the newest, is ${newest.state}: a new version would not keep the login's other key. Nothing was written. First ${ways.join(', or ')}; then run this command again.`,
  );
}

function stateOf({ destroyed, deletedAt }: VersionInfo): 'living' | 'deleted' | 'destroyed' {
  if (destroyed) return 'destroyed';
  return deletedAt !== undefined && deletedAt.getTime() <= Date.now() ? 'deleted' : 'living';
}

/** @throws Stop for a text that is no whole number above zero. */
export function wholeNumber(text: string | undefined, option: string): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new Stop(`${option} takes a whole number`, exitCode.usage);
  return Number(text);
}

/** Does the one write of a command, and says what is certain when it fails. @throws Stop */
export async function checkAndSet(
  address: KeyAddress,
  before: number,
  write: () => Promise<number>,
): Promise<number> {
  const name = addressName(address);
  try {
    return await write();
  } catch (error) {
    if (isProblem(error, 'cas-mismatch')) throw changed(name, before);
    const uncertain = isProblem(error, 'unreachable', 'timeout', 'failing', 'invalid-reply', 'too-large');
    if (!uncertain) throw new Stop(`${messageOf(error)}. Nothing was written.`);
    throw new Stop(
      `${error.message}. Whether the new version of ${name} was written is not known: look with "countersign keys list".`,
    );
  }
}

function changed(name: string, expected: number): Stop {
  const what =
    expected === 0 ? `${name} is there by now` : `Version ${expected} of ${name} is not the newest`;
  return new Stop(
    `${what}: somebody else has written meanwhile. Nothing was written. Look with "countersign keys list", then decide again.`,
  );
}

/** What may be told of a new key. @throws Stop for one that could not be used, before anything is written. */
export function checkedFacts(fields: KeyFields): KeyFacts {
  const [entry] = parseKeys(fields, { version: 0 });
  if (entry === undefined) throw new TypeError('no key was given');
  if ('problem' in entry) throw new Stop(`${entry.problem}. Nothing was written.`);
  return keyFacts(entry);
}

/** @throws Stop for a file that is there: it may be the public key that the gateway was given. */
export async function checkNewFile(file: string | undefined): Promise<void> {
  if (file === undefined) return;
  const isThere = await access(file).then(
    () => true,
    () => false,
  );
  if (isThere) throw new Stop(`${file} is there already. Name a new file. Nothing was written.`);
}

/** What was written. */
export interface Written extends KeyFacts {
  readonly address: KeyAddress;
  readonly version: number;
  readonly before: number;
}

/** Prints what was written, and puts the public key into a file where one is named. Gives the exit code. */
export async function reportWritten(
  written: Written,
  { json, 'public-key': file }: CommonValues & { readonly 'public-key'?: string },
  io: Io,
): Promise<number> {
  const { address, version, before, kind, bits, fingerprint, publicKey } = written;
  if (json) {
    const facts = { version, previousVersion: before, kind, bits, fingerprint, publicKey };
    io.out(JSON.stringify({ ...address, ...facts }, null, 2));
  } else {
    const what = publicKey === undefined ? 'a new control key' : `a new RSA key of ${bits} bits`;
    io.out(`Version ${version} of ${addressName(address)} is written, with ${what}.`);
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
