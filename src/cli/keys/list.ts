import { age, describeKey } from '../../keys/key.ts';
import { type LoginRef, loginRefString } from '../../keys/login-ref.ts';
import { isUnavailable } from '../../keys/vault/errors.ts';
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

export const listKeys = command(spec, ({ values }, io) =>
  withStoredKeys(values, io, async (inventory, context) => {
    const listed = await (values.login === undefined
      ? currentVersions(context.environment, inventory)
      : allVersions(loginRefOf(context, values), inventory));
    print(listed, context.environment, values, io);
    return listed.some(({ problem }) => problem !== undefined) ? exitCode.failed : exitCode.done;
  }),
);

async function allVersions(login: LoginRef, inventory: KeyInventory): Promise<LoginVersions[]> {
  const versions = await inventory.versions(login);
  if (versions.length > 0) return [{ login, versions }];
  throw new CliError(`${loginRefString(login)} has no keys; check the spelling`);
}

/**
 * Sequential to limit the load on Vault: an environment can have many logins. One that cannot be read does not hide the
 * others.
 */
async function currentVersions(environment: string, inventory: KeyInventory): Promise<LoginVersions[]> {
  const logins: LoginVersions[] = [];
  for (const name of await inventory.logins(environment)) {
    const login = { environment, login: name };
    try {
      logins.push({ login, versions: (await inventory.versions(login)).slice(0, 1) });
    } catch (error) {
      if (isUnavailable(error)) throw error;
      logins.push({ login, versions: [], problem: operatorMessage(error) });
    }
  }
  return logins;
}

function print(logins: readonly LoginVersions[], environment: string, { json }: CommonValues, io: Io): void {
  if (json) {
    io.out(JSON.stringify({ environment, logins: logins.map(jsonOf) }, null, 2));
    return;
  }
  if (logins.length === 0) io.out(`No login of ${environment} has keys.`);
  for (const { login, versions, problem } of logins) {
    io.out(loginRefString(login));
    const rows = versions.flatMap((version) => rowsOf(version, Date.now()));
    if (problem !== undefined) io.out(`cannot be read: ${problem}`);
    else for (const line of table(['VERSION', 'KIND', 'AGE', 'KEY'], rows)) io.out(line);
  }
}

function rowsOf({ version, createdAt, state, keys }: KeyVersionEntry, now: number): string[][] {
  const keyAge = age(createdAt, now);
  if (keys.length === 0) {
    const isGone = state === 'deleted' || state === 'destroyed';
    return [[String(version), '-', keyAge, isGone ? state : 'no key']];
  }
  return keys.map(describeKey).map(({ kind, problem, fingerprint, transitKey }) => {
    const name = transitKey === undefined ? '' : ` (Transit key ${transitKey})`;
    return [
      String(version),
      kind,
      keyAge,
      fingerprint === undefined ? (problem ?? '') : `${fingerprint}${name}`,
    ];
  });
}

function jsonOf({ login, versions, problem }: LoginVersions) {
  return {
    login: login.login,
    problem,
    versions: versions.map(({ version, createdAt, state, keys }) => ({
      version,
      createdAt: createdAt?.toISOString(),
      state,
      keys: keys.map(describeKey),
    })),
  };
}
