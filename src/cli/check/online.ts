import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request as plainRequest } from 'node:http';
import { Agent as HttpsAgent, request as tlsRequest } from 'node:https';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { loadKeys } from '../../auth/jwt/key-set.ts';
import type {
  Config,
  EnvironmentConfig,
  JwtIssuerConfig,
  KeysConfig,
  OnceConfig,
} from '../../config/schema.ts';
import { errorCode } from '../../errors.ts';
import type { OperationTable } from '../../gateway/operations.ts';
import { age, describeKey } from '../../keys/key.ts';
import { ringIn } from '../../keys/key-source.ts';
import type { LoginRef } from '../../keys/login-ref.ts';
import { isVaultError } from '../../keys/vault/errors.ts';
import { createAgent } from '../../net/agent.ts';
import { ConnectionError, describeNetworkFailure } from '../../net/network-failure.ts';
import { readTlsMaterial } from '../../net/tls-files.ts';
import { openClaims, weaknessesIn } from '../shared/claims.ts';
import { exitCode, messageOf, operatorMessage } from '../shared/cli-error.ts';
import type { Io } from '../shared/command.ts';
import { type KeyInventory, withInventory } from '../shared/inventory.ts';
import { isPattern, type RequiredKey, requiredKeys } from '../shared/required-keys.ts';
import { table } from '../shared/table.ts';

/** The result of one check of `check --online`. The names are those of `--json`. */
interface CheckResult {
  readonly check: 'vault' | 'directory' | 'key' | 'jwt-issuer' | 'gateway' | 'claims';
  readonly subject: string;
  readonly result: 'ok' | 'warning' | 'failed' | 'not-checked';
  readonly detail: string;
}

const kindMissing = 'the login has no key of this kind';

const kindSuperseded =
  'the newest version was deleted; the one before it is used until the grace period ends';

const oneVersion =
  'Vault keeps only one version (max_versions=1), so an instance that starts during a rotation lacks the previous key';

/**
 * Checks whether a configuration works on this machine: logs in to the key source, reads every key that the grants
 * require, fetches the keys of each JWT issuer, and connects to each gateway and to the store of claims. Prints a table, or
 * JSON.
 *
 * @returns the exit code: 1 if any check failed
 */
export async function checkOnline(
  config: Config,
  operations: OperationTable,
  json: boolean,
  io: Io,
): Promise<number> {
  const { environments, jwtIssuers, payments } = config;
  const others = Promise.all([
    ...Object.entries(jwtIssuers).map(([name, settings]) => checkIssuer(name, settings)),
    ...Object.entries(environments).map(([name, settings]) => checkGateway(name, settings)),
    ...(payments.once ? [checkClaims(payments.once)] : []),
  ]);
  const keys = await checkSource(config.keys, requiredKeys(config, operations));
  const rows = [...keys, ...(await others)];
  const ok = rows.every(({ result }) => result !== 'failed');
  if (json) io.out(JSON.stringify({ ok, checks: rows }, null, 2));
  else {
    const cells = rows.map(({ check, subject, result, detail }) => [check, subject, result, detail]);
    for (const line of table(['CHECK', 'SUBJECT', 'RESULT', 'DETAIL'], cells)) io.out(line);
  }
  return ok ? exitCode.done : exitCode.failed;
}

function checkGateway(name: string, settings: EnvironmentConfig): Promise<CheckResult> {
  const { baseUrl, egressProxy } = settings;
  const way = egressProxy === undefined ? baseUrl : `${baseUrl} through ${egressProxy.url}`;
  return runCheck(
    { check: 'gateway', subject: name },
    () => probeConnection(settings),
    messageOf,
    `${way}: `,
  );
}

function checkIssuer(name: string, settings: JwtIssuerConfig): Promise<CheckResult> {
  return runCheck({ check: 'jwt-issuer', subject: name }, async () => {
    const keys = await loadKeys(settings);
    const kinds = new Set(keys.map(({ kty, crv }) => crv ?? kty));
    return `${settings.issuer}: ${keys.length} public ${keys.length === 1 ? 'key' : 'keys'} (${[...kinds].join(', ')})`;
  });
}

async function checkClaims(settings: OnceConfig): Promise<CheckResult> {
  const row = { check: 'claims', subject: settings.store } as const;
  if (settings.store === 'memory') return { ...row, result: 'not-checked', detail: 'claims of one instance' };
  let weaknesses: string[] = [];
  const result = await runCheck(row, async () => {
    const store = await openClaims(settings);
    try {
      weaknesses = weaknessesIn(await store.info(), await store.setting('appendfsync'));
    } finally {
      await store.close();
    }
    return 'order IDs can be claimed';
  });
  if (weaknesses.length === 0) return result;
  return { ...result, result: 'warning', detail: [result.detail, ...weaknesses].join('; ') };
}

/** The result for the key source and, if it can be read, those for the keys. */
async function checkSource(keys: KeysConfig, required: readonly RequiredKey[]): Promise<CheckResult[]> {
  const sourceCheck = {
    check: keys.source,
    subject: keys.source === 'vault' ? keys.vault.address : keys.directory,
  };
  const login = probeLogin();
  return withInventory(keys, login.events, async (inventory) => {
    const { source } = inventory;
    source.start();
    const result = await runCheck(sourceCheck, async () => {
      if (keys.source === 'vault') return login.result;
      if (!source.ready()) throw new Error('the directory is not readable');
      return 'directory is readable';
    });
    return result.result === 'failed' ? [result] : [result, ...(await checkKeys(required, inventory))];
  });
}

/**
 * Observes the first login of a Vault source. Its event is the first one.
 *
 * @returns `result` describes the token; it rejects if the login failed
 */
function probeLogin() {
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
  return { result, events: { tokenExpiryChanged, loginFailed: fail, keyProblem: fail } };
}

/**
 * Connects to a gateway as the proxy would, and disconnects. Returns what is known of the connection. A client
 * certificate may be rejected only after the handshake (TLS 1.3), so with one it also sends an unsigned `HEAD /`.
 *
 * @throws Error of the connection or of the certificate
 */
async function probeConnection(settings: EnvironmentConfig): Promise<string> {
  const { baseUrl, egressProxy, timeouts, certFile } = settings;
  const tls = { ...readTlsMaterial(settings), minVersion: settings.minVersion };
  const agent = createAgent(baseUrl, tls, { keepAlive: false }, egressProxy, timeouts.connect);
  const isSecure = agent instanceof HttpsAgent;
  const signal = AbortSignal.timeout(timeouts.connect);
  // Opens a connection at once, and sends nothing before its end.
  const request = (isSecure ? tlsRequest : plainRequest)(baseUrl, { agent, method: 'HEAD', path: '/' });
  request.on('error', () => {});
  try {
    const [socket]: Socket[] = await once(request, 'socket');
    if (socket === undefined) throw new TypeError('the request has no connection');
    // An egress proxy has its own timeout, and its connection is ready.
    if (egressProxy === undefined) await once(socket, isSecure ? 'secureConnect' : 'connect', { signal });
    return certFile === undefined
      ? describe(socket)
      : `${describe(socket)}; ${await probeClientCertificate(request, signal)}`;
  } catch (error) {
    throw new Error(problemOf(error, timeouts.connect), { cause: error });
  } finally {
    request.destroy();
  }
}

async function probeClientCertificate(request: ClientRequest, signal: AbortSignal): Promise<string> {
  request.end();
  const [response]: IncomingMessage[] = await once(request, 'response', { signal }).catch(
    (error: unknown) => {
      if (errorCode(error) !== 'ECONNRESET') throw error;
      throw new Error('the gateway ended the connection after it received the client certificate');
    },
  );
  const status = response?.statusCode;
  // nginx completes the handshake, and rejects a client certificate with this status.
  const doubt = status === 400 ? ', which can mean that it rejects the client certificate' : '';
  return `responds with the client certificate (HTTP status ${status}${doubt})`;
}

function describe(socket: Socket): string {
  if (!(socket instanceof TLSSocket)) return 'connected without TLS';
  const expiry = new Date(socket.getPeerCertificate().valid_to);
  return `${socket.getProtocol() ?? 'TLS'}, certificate valid until ${expiry.toISOString().slice(0, 10)}`;
}

function problemOf(error: unknown, timeout: number): string {
  if (errorCode(error) === 'ABORT_ERR') return `no connection within ${timeout / 1000} s`;
  if (error instanceof ConnectionError) return `no connection: ${describeNetworkFailure(error)}`;
  return `no connection: ${errorCode(error) ?? messageOf(error)}`;
}

/** Checks that each of these keys exists and is usable. */
async function checkKeys(
  requiredKeys: readonly RequiredKey[],
  inventory: KeyInventory,
): Promise<CheckResult[]> {
  const rows: CheckResult[] = [];
  for (const required of requiredKeys) {
    if (isPattern(required)) rows.push(...(await checkPattern(required, inventory)));
    else rows.push(await checkLogin(required, inventory));
  }
  return rows.filter((row, at) => rows.findIndex(({ subject }) => subject === row.subject) === at);
}

async function checkLogin(
  { environment, logins: login, kind }: RequiredKey,
  inventory: KeyInventory,
): Promise<CheckResult> {
  const subject = `${environment}/${login} ${kind}`;
  const objections: string[] = [];
  const describeNewest = async (): Promise<string> => {
    await assertPermitted({ environment, login }, inventory);
    const ring = ringIn(await inventory.source.read({ environment, login }));
    const [newest] = ring?.filter((entry) => entry.kind === kind) ?? [];
    if (newest === undefined) {
      if (ring === undefined)
        throw new Error(
          'the login has no keys: unless it was stopped, store one, in Vault with countersign keys import --create',
        );
      const fields = ring.length === 0 ? await inventory.shownFields({ environment, login }) : '';
      throw new Error(`${kindMissing}${fields}`);
    }
    if (newest.supersededAt !== undefined) throw new Error(kindSuperseded);
    if ('problem' in newest) throw new Error(`version ${newest.version}: ${newest.problem}`);
    const { bits, transitKey } = describeKey(newest);
    if ('publicKey' in newest.key) objections.push(...(await inventory.objections(newest.key)));
    const keyAge = newest.createdAt === undefined ? '' : `, ${age(newest.createdAt, Date.now())} old`;
    return `version ${newest.version}${keyAge}${bits === undefined ? '' : `, RSA ${bits} bits`}${transitKey === undefined ? '' : `, in Vault (Transit key ${transitKey})`}`;
  };
  const result = await runCheck({ check: 'key', subject }, describeNewest, operatorMessage);
  // A token that may not read metadata is the usual one.
  const keepsOne = await inventory.keepsOneVersion({ environment, login }).catch(() => false);
  const warnings = [
    ...(keepsOne ? [oneVersion] : []),
    ...objections.map((text) => `the Transit key ${text}`),
  ];
  if (result.result !== 'ok' || warnings.length === 0) return result;
  return { ...result, result: 'warning', detail: [result.detail, ...warnings].join('; ') };
}

/** @throws Error with the path that the policy of this login to the key source does not permit */
async function assertPermitted(login: LoginRef, inventory: KeyInventory): Promise<void> {
  // A token without the policy `default` may not find it out: then reading a key shows it.
  const path = await inventory.deniedPath(login).catch((error: unknown) => {
    if (isVaultError(error, 'not-a-mount', 'kv-version-1')) throw error;
    return undefined;
  });
  if (path !== undefined) throw new Error(`Vault denies reading ${path}; its policy must permit it`);
}

/** A login that only a pattern matches need not have every kind of key, but those it has must be usable. */
async function checkPattern(required: RequiredKey, inventory: KeyInventory) {
  const { environment, logins: pattern, kind } = required;
  const row = { check: 'key', subject: `${environment}/${pattern} ${kind}`, result: 'not-checked' } as const;
  const known = await inventory.logins(environment).catch(() => undefined);
  const some = { environment, login: `${pattern.slice(0, -1)}some-login` };
  const permitted = () => assertPermitted(some, inventory).then(() => '');
  const result = await runCheck(row, permitted, operatorMessage);
  if (known === undefined) {
    if (result.result === 'failed') return [result];
    return [{ ...row, detail: 'wildcard grant; the key source does not permit listing logins' }];
  }
  const logins = known.filter((login) => login.startsWith(pattern.slice(0, -1)));
  const rows: CheckResult[] = [];
  for (const login of logins) {
    const found = await checkLogin({ environment, logins: login, kind }, inventory);
    rows.push(found.detail.startsWith(kindMissing) ? { ...found, result: 'not-checked' } : found);
  }
  if (rows.length > 0) return rows;
  return [result.result === 'failed' ? result : { ...row, detail: 'no login matches' }];
}

/** The detail is the text of the work, or of its error. */
async function runCheck(
  row: Pick<CheckResult, 'check' | 'subject'>,
  work: () => Promise<string>,
  explain: (error: unknown) => string = messageOf,
  prefix = '',
): Promise<CheckResult> {
  try {
    return { ...row, result: 'ok', detail: `${prefix}${await work()}` };
  } catch (error) {
    return { ...row, result: 'failed', detail: `${prefix}${explain(error)}` };
  }
}
