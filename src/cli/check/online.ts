import { readFile } from 'node:fs/promises';
import { loadKeys } from '../../auth/jwt/load-keys.ts';
import type { Config, EnvironmentConfig, JwtIssuerConfig, KeysConfig } from '../../config/schema.ts';
import type { OperationTable } from '../../gateway/operations.ts';
import type { KeySource, KeySourceObserver } from '../../keys/key-source.ts';
import { createKeySource, silentObserver } from '../../server/key-source.ts';
import { system } from '../../server/system.ts';
import { openInventory } from '../shared/inventory.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { messageOf } from '../shared/system-error.ts';
import { table } from '../shared/table.ts';
import { probeConnection } from './gateway.ts';
import { checkKeys } from './keys.ts';
import { type RequiredKey, requiredKeys } from './required-keys.ts';
import { type CheckResult, runCheck } from './result.ts';

/**
 * Checks whether a configuration works on this machine: logs in to the key source, reads every key that the grants
 * require, fetches the keys of each JWT issuer, and connects to each gateway. Prints a table, or JSON.
 *
 * @returns the exit code: 1 if any check failed
 */
export async function checkOnline(
  config: Config,
  operations: OperationTable,
  json: boolean,
  io: Io,
): Promise<number> {
  const gateways = Promise.all(
    Object.entries(config.environments).map(([name, settings]) => checkGateway(name, settings)),
  );
  const issuers = Promise.all(
    Object.entries(config.jwtIssuers).map(([name, settings]) => checkIssuer(name, settings)),
  );
  const keys = await checkSource(config.keys, requiredKeys(config, operations));
  const rows = [...keys, ...(await issuers), ...(await gateways)];
  const ok = rows.every(({ result }) => result !== 'failed');
  if (json) io.out(JSON.stringify({ ok, checks: rows }, null, 2));
  else for (const line of table(head, rows.map(cells))) io.out(line);
  return ok ? exitCode.done : exitCode.failed;
}

const head = ['CHECK', 'SUBJECT', 'RESULT', 'TIME', 'DETAIL'];

function cells({ check, subject, result, milliseconds, detail }: CheckResult): string[] {
  return [check, subject, result, milliseconds === undefined ? '-' : `${milliseconds} ms`, detail];
}

function checkGateway(name: string, settings: EnvironmentConfig): Promise<CheckResult> {
  const connect = async (): Promise<string> => {
    const ca = settings.caFile === undefined ? undefined : await readFile(settings.caFile, 'utf8');
    return `${settings.baseUrl}: ${await probeConnection(settings.baseUrl, ca, settings.timeouts.connect)}`;
  };
  const explain = (error: unknown) => `${settings.baseUrl}: ${messageOf(error)}`;
  return runCheck({ check: 'gateway', subject: name }, connect, explain);
}

function checkIssuer(name: string, settings: JwtIssuerConfig): Promise<CheckResult> {
  const load = async (): Promise<string> => {
    const keys = await loadKeys(settings);
    const kinds = new Set(keys.map(({ kty, crv }) => crv ?? kty));
    return `${settings.issuer}: ${keys.length} public ${keys.length === 1 ? 'key' : 'keys'} (${[...kinds].join(', ')})`;
  };
  return runCheck({ check: 'jwt-issuer', subject: name }, load, messageOf);
}

/** The result for the key source and, if it can be read, those for the keys. */
async function checkSource(keys: KeysConfig, required: readonly RequiredKey[]): Promise<CheckResult[]> {
  const sourceCheck = {
    check: keys.source,
    subject: keys.source === 'vault' ? keys.vault.address : keys.directory,
  };
  if (isSingleUse(keys)) {
    const detail = 'wrapped secret IDs are single-use; skipped';
    return [{ ...sourceCheck, result: 'not-checked', detail }];
  }
  const login = probeLogin();
  const source = createKeySource(keys, { ...system, events: login.events });
  const inventory = openInventory(keys);
  try {
    source.start();
    const connect = keys.source === 'vault' ? () => login.result : async () => assertReadable(source);
    const result = await runCheck(sourceCheck, connect, messageOf);
    return result.result === 'failed'
      ? [result]
      : [result, ...(await checkKeys(required, source, inventory))];
  } finally {
    await Promise.all([source.stop(), inventory.close()]);
  }
}

function isSingleUse(keys: KeysConfig): boolean {
  return (
    keys.source === 'vault' &&
    keys.vault.auth.method === 'approle' &&
    keys.vault.auth.wrappedSecretIdFile !== undefined
  );
}

function assertReadable(source: KeySource): string {
  if (!source.ready()) throw new Error('the directory is not readable');
  return 'directory is readable';
}

/**
 * Observes the first login of a Vault source. Its event is the first one.
 *
 * @returns `result` describes the token; it rejects if the login failed
 */
function probeLogin(): { readonly events: KeySourceObserver; readonly result: Promise<string> } {
  const { promise: result, resolve, reject } = Promise.withResolvers<string>();
  // With a directory, nothing awaits the result.
  result.catch(() => {});
  const fail = (problem: string): void => reject(new Error(problem));
  const tokenExpiryChanged = (at: number | undefined): void => {
    const expiry =
      at === undefined
        ? 'token does not expire'
        : `token expires at ${new Date(at * 1000).toISOString().slice(0, 19)}Z`;
    resolve(`logged in; ${expiry}`);
  };
  return { result, events: { ...silentObserver, tokenExpiryChanged, loginFailed: fail, keyProblem: fail } };
}
