import { age, describeKey, findEqualKey, type KeyDescription } from '../../keys/describe.ts';
import type { LoginRef } from '../../keys/key-source.ts';
import { CliError } from '../shared/cli-error.ts';
import { type KeyInventory, type KeyVersionEntry, openInventory } from '../shared/inventory.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { parseOptions } from '../shared/parse-options.ts';
import { table } from '../shared/table.ts';
import { type CommonValues, commonOptions, commonUsage, loginRefOf, withKeysContext } from './options.ts';

const usage = `Usage: countersign keys list --config FILE --environment NAME [--login LOGIN] [options]

Shows the versions of a login's keys with their age, and the fingerprint (SHA-256 of the public key) of
those for RSA. Without --login: the current version of every login of the environment.

${commonUsage}`;

/** The versions of one login. */
interface LoginVersions {
  readonly address: LoginRef;
  readonly versions: readonly KeyVersionEntry[];
}

export async function listKeys(argv: readonly string[], io: Io): Promise<number> {
  const read = parseOptions('keys list', argv, commonOptions, usage, io);
  if ('exit' in read) return read.exit;
  return withKeysContext(read.values, io, async (place) => {
    const inventory = openInventory(place.keys);
    try {
      const shelves = await (read.values.login === undefined
        ? current(place.environment, inventory)
        : all(loginRefOf(place, read.values), inventory));
      print(shelves, place.environment, read.values, io);
      return exitCode.done;
    } finally {
      await inventory.close();
    }
  });
}

async function all(address: LoginRef, inventory: KeyInventory): Promise<LoginVersions[]> {
  const versions = await inventory.versions(address);
  if (versions.length > 0) return [{ address, versions }];
  throw new CliError(`${address.environment}/${address.login} has no keys; is the login spelt right?`);
}

/** One login after the other: an environment can have many, and Vault others to serve. */
async function current(environment: string, inventory: KeyInventory): Promise<LoginVersions[]> {
  const shelves: LoginVersions[] = [];
  for (const login of await inventory.logins(environment)) {
    const address = { environment, login };
    shelves.push({ address, versions: (await inventory.versions(address)).slice(0, 1) });
  }
  return shelves;
}

function print(shelves: readonly LoginVersions[], environment: string, { json }: CommonValues, io: Io): void {
  if (json) {
    io.out(JSON.stringify({ environment, logins: shelves.map(jsonOf) }, null, 2));
    return;
  }
  if (shelves.length === 0) io.out(`No login of ${environment} has keys.`);
  for (const { address, versions } of shelves) {
    io.out(`${address.environment}/${address.login}`);
    const rows = versions.flatMap((version, at) => rowsOf(version, versions.slice(at + 1), Date.now()));
    for (const line of table(['VERSION', 'KIND', 'AGE', 'KEY'], rows)) io.out(line);
  }
}

function rowsOf(held: KeyVersionEntry, older: readonly KeyVersionEntry[], now: number): string[][] {
  const { version, createdAt, state, keys } = held;
  const since = age(createdAt, now);
  if (keys.length === 0) {
    const isGone = state === 'deleted' || state === 'destroyed';
    return [[String(version), '-', since, isGone ? state : 'no key']];
  }
  return describeAll(held, older).map((facts) => [String(version), facts.kind, since, keyText(facts)]);
}

interface Described extends KeyDescription {
  /** The version before that has the same key. */
  readonly sameAs?: number;
}

function describeAll({ keys }: KeyVersionEntry, older: readonly KeyVersionEntry[]): Described[] {
  const ring = older.flatMap((one) => one.keys);
  return keys.map((entry) => {
    const same = findEqualKey(entry, ring);
    return { ...describeKey(entry), ...(same === undefined ? {} : { sameAs: same.version }) };
  });
}

/** A control key has nothing that could be shown; whether it is another than before, is what one asks. */
function keyText({ problem, fingerprint, sameAs }: Described): string {
  return (
    problem ?? fingerprint ?? (sameAs === undefined ? 'a key of its own' : `the one of version ${sameAs}`)
  );
}

function jsonOf({ address, versions }: LoginVersions) {
  return {
    login: address.login,
    versions: versions.map((held, at) => ({
      version: held.version,
      createdAt: held.createdAt?.toISOString(),
      state: held.state,
      keys: describeAll(held, versions.slice(at + 1)),
    })),
  };
}
