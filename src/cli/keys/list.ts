import { age, describeKey, findEqualKey, type KeyDescription } from '../../keys/describe.ts';
import type { LoginRef } from '../../keys/key-source.ts';
import { loginRefString } from '../../keys/login-ref.ts';
import { CliError } from '../shared/cli-error.ts';
import { type KeyInventory, type KeyVersionEntry, openInventory } from '../shared/inventory.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { optionsHelp, parseOptions } from '../shared/parse-options.ts';
import { table } from '../shared/table.ts';
import { type CommonValues, commonOptions, loginRefOf, withKeysContext } from './options.ts';

const usage = `Usage: countersign keys list --config FILE --environment NAME [--login LOGIN] [options]

Lists the key versions of a login with age and, for RSA, the fingerprint (SHA-256 of the public key).
Without --login: the current version of every login of the environment.

${optionsHelp(commonOptions)}`;

interface LoginVersions {
  readonly login: LoginRef;
  readonly versions: readonly KeyVersionEntry[];
}

export async function listKeys(argv: readonly string[], io: Io): Promise<number> {
  const parsed = parseOptions('keys list', argv, commonOptions, usage, io);
  if ('exit' in parsed) return parsed.exit;
  return withKeysContext(parsed.values, io, async (context) => {
    const inventory = openInventory(context.keys);
    try {
      const logins = await (parsed.values.login === undefined
        ? currentVersions(context.environment, inventory)
        : allVersions(loginRefOf(context, parsed.values), inventory));
      print(logins, context.environment, parsed.values, io);
      return exitCode.done;
    } finally {
      await inventory.close();
    }
  });
}

async function allVersions(login: LoginRef, inventory: KeyInventory): Promise<LoginVersions[]> {
  const versions = await inventory.versions(login);
  if (versions.length > 0) return [{ login, versions }];
  throw new CliError(`${loginRefString(login)} has no keys; check the spelling`);
}

/** Sequential to limit the load on Vault: an environment can have many logins. */
async function currentVersions(environment: string, inventory: KeyInventory): Promise<LoginVersions[]> {
  const found: LoginVersions[] = [];
  for (const name of await inventory.logins(environment)) {
    const login = { environment, login: name };
    found.push({ login, versions: (await inventory.versions(login)).slice(0, 1) });
  }
  return found;
}

function print(logins: readonly LoginVersions[], environment: string, { json }: CommonValues, io: Io): void {
  if (json) {
    io.out(JSON.stringify({ environment, logins: logins.map(jsonOf) }, null, 2));
    return;
  }
  if (logins.length === 0) io.out(`No login of ${environment} has keys.`);
  for (const { login, versions } of logins) {
    io.out(loginRefString(login));
    const rows = versions.flatMap((version, at) => rowsOf(version, versions.slice(at + 1), Date.now()));
    for (const line of table(['VERSION', 'KIND', 'AGE', 'KEY'], rows)) io.out(line);
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

interface Described extends KeyDescription {
  /** The previous version with the same key. */
  readonly sameAs?: number;
}

function describeAll({ keys }: KeyVersionEntry, older: readonly KeyVersionEntry[]): Described[] {
  const ring = older.flatMap((version) => version.keys);
  return keys.map((key) => {
    const same = findEqualKey(key, ring);
    return { ...describeKey(key), ...(same === undefined ? {} : { sameAs: same.version }) };
  });
}

/** A control key has no public part to show, only whether it differs from the previous one. */
function keyText({ problem, fingerprint, sameAs }: Described): string {
  return problem ?? fingerprint ?? (sameAs === undefined ? 'unique' : `same as version ${sameAs}`);
}

function jsonOf({ login, versions }: LoginVersions) {
  return {
    login: login.login,
    versions: versions.map((entry, at) => ({
      version: entry.version,
      createdAt: entry.createdAt?.toISOString(),
      state: entry.state,
      keys: describeAll(entry, versions.slice(at + 1)),
    })),
  };
}
