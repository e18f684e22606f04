import { identifierCharacters } from '../../identifiers.ts';
import { age, describeKey } from '../../keys/key.ts';
import { type LoginRef, loginRefString } from '../../keys/login-ref.ts';
import { findEqualKey } from '../../keys/ring.ts';
import { isUnavailable } from '../../keys/vault/errors.ts';
import { printable } from '../../util/text.ts';
import { CliError, exitCode, operatorMessage } from '../shared/cli-error.ts';
import { command, type Io } from '../shared/command.ts';
import type { KeyInventory, KeyVersionEntry } from '../shared/inventory.ts';
import { table } from '../shared/table.ts';
import { type CommonValues, commonOptions, loginRefOf, withStoredKeys } from './options.ts';

const spec = {
  name: 'keys list',
  usage: '--config FILE --environment NAME [--login LOGIN] [options]',
  about:
    'Lists the key versions of a login with age and fingerprint: of an RSA key the SHA-256 of its public key, of a control key 4 hex digits. Without --login: the current version of every login of the environment.',
  options: commonOptions,
};

interface LoginVersions {
  readonly login: LoginRef;
  readonly versions: readonly KeyVersionEntry[];
  /** Why its keys cannot be read. */
  readonly problem?: string;
}

interface Listing {
  readonly logins: readonly LoginVersions[];
  /** Names that are no logins. */
  readonly others: readonly string[];
}

export const listKeys = command(spec, ({ values }, io) =>
  withStoredKeys(values, io, async (inventory, context) => {
    const listing = await (values.login === undefined
      ? currentVersions(context.environment, inventory)
      : allVersions(loginRefOf(context, values), inventory));
    print(listing, context.environment, values, io);
    return listing.logins.some(({ problem }) => problem !== undefined) ? exitCode.failed : exitCode.done;
  }),
);

async function allVersions(login: LoginRef, inventory: KeyInventory): Promise<Listing> {
  const versions = await inventory.versions(login);
  if (versions.length > 0) return { logins: [{ login, versions }], others: [] };
  throw new CliError(`${loginRefString(login)} has no keys; check the spelling`);
}

/**
 * Sequential to limit the load on Vault: an environment can have many logins. One that cannot be read does not hide the
 * others.
 */
async function currentVersions(environment: string, inventory: KeyInventory): Promise<Listing> {
  const { logins: names, others } = await inventory.logins(environment);
  const logins: LoginVersions[] = [];
  for (const name of names) {
    const login = { environment, login: name };
    try {
      logins.push({ login, versions: (await inventory.versions(login)).slice(0, 1) });
    } catch (error) {
      if (isUnavailable(error)) throw error;
      logins.push({ login, versions: [], problem: operatorMessage(error) });
    }
  }
  return { logins, others };
}

function print({ logins, others }: Listing, environment: string, { json }: CommonValues, io: Io): void {
  if (json) {
    io.out(JSON.stringify({ environment, logins: logins.map(jsonOf), others }, null, 2));
    return;
  }
  if (logins.length === 0) io.out(`No login of ${environment} has keys.`);
  for (const { login, versions, problem } of logins) {
    io.out(loginRefString(login));
    const rows = versions.flatMap((version, at) => rowsOf(version, versions.slice(at + 1), Date.now()));
    if (problem !== undefined) io.out(`cannot be read: ${problem}`);
    else for (const line of table(['VERSION', 'KIND', 'AGE', 'KEY'], rows)) io.out(line);
  }
  for (const name of others) {
    io.err(
      `Not a login, and never read: "${printable(name)}". A login has 1 to 128 of ${identifierCharacters}`,
    );
  }
}

function rowsOf(entry: KeyVersionEntry, older: readonly KeyVersionEntry[], now: number): string[][] {
  const { version, createdAt, state, keys } = entry;
  const keyAge = age(createdAt, now);
  if (keys.length === 0) {
    const isGone = state === 'deleted' || state === 'destroyed';
    return [[String(version), '-', keyAge, isGone ? state : 'no key']];
  }
  return describeAll(entry, older).map((key) => [String(version), key.kind, keyAge, keyText(key)]);
}

/** With the previous version that has the same key. */
function describeAll({ keys }: KeyVersionEntry, older: readonly KeyVersionEntry[]) {
  const ring = older.flatMap((version) => version.keys);
  return keys.map((key) => ({ ...describeKey(key), sameAs: findEqualKey(key, ring)?.version }));
}

/** 4 hex digits do not show that two control keys are equal, so a version that has the same one is named. */
function keyText({
  kind,
  problem,
  fingerprint,
  transitKey,
  sameAs,
}: ReturnType<typeof describeAll>[number]): string {
  if (fingerprint === undefined) return problem ?? '';
  if (transitKey !== undefined) return `${fingerprint} (Transit key ${transitKey})`;
  return kind === 'control_key' && sameAs !== undefined
    ? `${fingerprint}, same as version ${sameAs}`
    : fingerprint;
}

function jsonOf({ login, versions, problem }: LoginVersions) {
  return {
    login: login.login,
    problem,
    versions: versions.map((entry, at) => ({
      version: entry.version,
      createdAt: entry.createdAt?.toISOString(),
      state: entry.state,
      keys: describeAll(entry, versions.slice(at + 1)),
    })),
  };
}
