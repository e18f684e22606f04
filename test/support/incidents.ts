import { spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { auditFilesIn, auditIn } from './audit.ts';
import { type ConfigInput, configFor, environmentFor, everything, tokenCredential } from './config.ts';
import type { Countersign } from './countersign.ts';
import { freePort } from './faulty-gateway.ts';
import { transferForm } from './forwarding.ts';
import type { Harness } from './harness.ts';
import { jwtConfig } from './jwt.ts';
import { startOidcServer } from './oidc-server.ts';
import { type CountersignProcess, listening } from './process.ts';
import type { RecordingGateway } from './recording-gateway.ts';
import { testKeys, writeKeys } from './service.ts';
import { VaultAdmin } from './stub-vault/admin.ts';
import { Ca } from './stub-vault/certificates.ts';
import { vaultKeys } from './stub-vault/harness.ts';
import { StubVault } from './stub-vault/server.ts';
import { rootToken } from './stub-vault/state.ts';
import { until } from './until.ts';

/** Something that goes wrong in a running process, and ends. */
export interface Incident {
  readonly name: string;
  readonly process: CountersignProcess;
  /** Of the finding, with its summary and its advice: cause and remedy. */
  readonly code: string;
  readonly cause: RegExp;
  readonly remedy: RegExp;
  /** Beside these. */
  readonly shows?: string;
  readonly begin: () => unknown;
  readonly end: () => unknown;
  /** Requests that notice both. */
  readonly traffic: () => Promise<unknown>;
}

type Row = readonly [name: string, code: string, cause: RegExp, remedy: RegExp];
type Play = Pick<Incident, 'begin' | 'end'> & Partial<Pick<Incident, 'traffic' | 'shows'>>;

const cache = { ttl: '1s', negativeTtl: '1s' };

const balance = (proxy: Countersign, environment: string, login = 'acme', headers = {}) =>
  proxy.post(`/${environment}/gw/api/v2/get-balance/manager/${login}`, '', headers);

/** Environments of one process, each with its own gateway. */
export async function gatewayIncidents(start: Harness): Promise<Incident[]> {
  const folder = start.folder();
  const ca = new Ca(folder.path, 'ca');
  const old = ca.issue('old', { from: Date.now() - 10 * 86_400_000, until: Date.now() + 3_600_000 });
  const caFile = folder.at('gateway-ca.pem');
  copyFileSync(ca.file, caFile);
  const port = await freePort();
  const oidc = start.closing(await startOidcServer());
  const names = 'refused hang errors one all payments full skew caller silent removed malformed'.split(' ');
  const gateways = new Map(
    await Promise.all(names.map(async (name) => [name, await start.recordingGateway()] as const)),
  );
  const gateway = (name: string): RecordingGateway => {
    const found = gateways.get(name);
    if (found === undefined) throw new Error(`no gateway ${name}`);
    return found;
  };
  // Long enough that a busy machine is no incident.
  const timeouts = { request: '3s', connect: '3s' };
  const environment = (baseUrl: string, more: object = {}) => ({
    ...environmentFor(baseUrl),
    timeouts,
    ...more,
  });
  const closed = `http://127.0.0.1:${port}`;
  let refused = gateway('refused').url;
  const config = (): ConfigInput => ({
    ...configFor(closed, { keys: { source: 'directory', directory: './keys', cache } }),
    callers: [
      { name: 'local', credentials: [{ anonymous: true }], allow: [everything] },
      { name: 'greedy', credentials: [tokenCredential('greedy')], maxInFlight: 1, allow: [everything] },
    ],
    jwtIssuers: jwtConfig(oidc).jwtIssuers,
    environments: {
      certificate: environment('https://127.0.0.1:1', { caFile }),
      ...Object.fromEntries(names.map((name) => [name, environment(gateway(name).url)])),
      full: environment(gateway('full').url, { maxInFlight: 1 }),
      silent: environment(gateway('silent').url, { timeouts: { request: '2m', connect: '1s' } }),
      refused: environment(refused),
    },
  });
  const served = start.spawn({ file: config() });
  const process = await listening(served);
  const keys = join(process.folder, 'keys');
  for (const name of names) for (const login of ['acme', 'beta']) writeKeys(keys, name, login, testKeys);
  const reload = async (): Promise<void> => {
    const reloads = (): number => process.logLines('configuration reloaded').length;
    const before = reloads();
    process.rewrite(config());
    process.signal('SIGHUP');
    await until(() => reloads() > before, 'the configuration is reloaded', 30);
  };
  const play = ([name, code, cause, remedy]: Row, own: Play): Incident => ({
    name,
    code,
    cause,
    remedy,
    process,
    traffic: () => balance(process, name),
    ...own,
  });
  const both = (name: string) => async () => {
    await balance(process, name);
    await balance(process, name, 'beta');
  };
  /** Responds like this while it lasts. */
  const responding = (name: string, respond: RecordingGateway['respond']): Pick<Play, 'begin' | 'end'> => ({
    begin: () => void (gateway(name).respond = respond),
    // A key that was rejected is so until it is accepted, for which the body has to be the gateway's own.
    end: () =>
      void (gateway(name).respond = (response) =>
        response.setHeader('Content-Type', 'application/json').end('[]')),
  });
  const failing = (name: string, status: number, target = /./): Pick<Play, 'begin' | 'end'> =>
    responding(name, (response, request) =>
      response.writeHead(target.test(request.target) ? status : 200).end(),
    );
  /** More requests at once than are allowed, while they take half a second each. */
  const crowded = (name: string, headers = {}): Play => {
    let isSlow = false;
    const { begin, end } = responding(name, (response) => void setTimeout(() => response.end('OK'), 500));
    return {
      begin: () => void (begin(), (isSlow = true)),
      end: () => void (end(), (isSlow = false)),
      traffic: () =>
        Promise.all(Array.from({ length: isSlow ? 4 : 1 }, () => balance(process, name, 'acme', headers))),
    };
  };
  const waiting: ServerResponse[] = [];
  const responses: Promise<unknown>[] = [];
  const none = async (): Promise<void> => {};
  return [
    play(['refused', 'gateway-unreachable', /refused: .*connection refused/, /baseUrl/], {
      // In effect with the reload of the last one.
      begin: () => void (refused = closed),
      end: () => void (refused = gateway('refused').url),
    }),
    play(
      ['hang', 'gateway-timeout', /hang: .*not respond in time/, /timeouts\.request/],
      responding('hang', () => {}),
    ),
    play(
      ['errors', 'gateway-server-error', /errors: .*server errors \(500\)/, /support of the gateway/],
      failing('errors', 500),
    ),
    play(['one', 'key-rejected', /of beta in one: the gateway rejects/, /store it in the key source/], {
      ...failing('one', 403, /beta/),
      traffic: both('one'),
    }),
    play(['all', 'gateway-blocks', /all responds with 401 or 403 to every login/, /Do not store new keys/], {
      ...failing('all', 403),
      traffic: both('all'),
    }),
    play(
      ['payments', 'outcome-unknown', /of payments in the last hour sent without/, /Query the order status/],
      {
        ...responding('payments', () => {}),
        traffic: () => process.post('/payments/gw/api/v4/transfer/1234', transferForm),
        shows: 'invoice-7',
      },
    ),
    play(['full', 'saturated', /full (is|was) at its limit/, /maxInFlight/], crowded('full')),
    play(
      ['skew', 'clock-skew', /clock of the gateway of skew is \d+ days behind/, /time synchronization/],
      responding('skew', (response) => response.setHeader('Date', 'Wed, 01 Jan 2025 00:00:00 GMT').end('OK')),
    ),
    play(
      ['caller', 'caller-limited', /greedy sends more requests .* got 429/, /maxInFlight/],
      crowded('caller', { Authorization: 'Bearer greedy' }),
    ),
    play(['silent', 'gateway-silent', /silent: no request has ended for/, /check --online/], {
      begin() {
        gateway('silent').respond = (response) => void waiting.push(response);
        for (const login of ['acme', 'beta']) responses.push(balance(process, 'silent', login));
      },
      async end() {
        for (const response of waiting) response.end('OK');
        await Promise.all(responses);
      },
      traffic: none,
    }),
    play(['removed', 'key-missing', /removed: a login has no key .* of acme/, /Store it/], {
      begin: () => rmSync(join(keys, 'removed/acme'), { recursive: true }),
      end: () => writeKeys(keys, 'removed', 'acme', testKeys),
    }),
    play(
      [
        'malformed',
        'key-unusable',
        /RSA key of acme in malformed: version \d+ cannot be used/,
        /not a PEM.*Store a correct key/i,
      ],
      {
        begin: () => writeFileSync(join(keys, 'malformed/acme/private_key.pem'), 'garbage'),
        end: () => writeKeys(keys, 'malformed', 'acme', testKeys),
      },
    ),
    play(['certificate', 'certificate-expiring', /gateway-ca of certificate expires/, /Renew it/], {
      begin: () => copyFileSync(old.certFile, caFile),
      end: () => copyFileSync(ca.file, caFile),
      traffic: none,
    }),
    play(['issuer', 'jwt-keys-stale', /issuer idp cannot be fetched: /, /check --online/], {
      begin: () => oidc.fail(500),
      end: () => oidc.recover(),
      traffic: none,
    }),
    play(['reload', 'config-reload-failed', /not reloaded/, /previous one is in effect/], {
      async begin() {
        await reload();
        process.rewrite('environments: [');
        process.signal('SIGHUP');
      },
      end: reload,
      traffic: none,
    }),
  ];
}

/** An audit trail that cannot be written, and a log that nothing reads: one process each. */
export async function outputIncidents(start: Harness): Promise<Incident[]> {
  const gateway = await start.recordingGateway();
  const audit = { ...auditIn(start.folder()), required: true };
  const audited = await start.process({ gateway: gateway.url, config: { audit } });
  const logged = await start.process({ gateway: gateway.url });
  const limit = (bytes: number | 'unlimited'): void => {
    const { status, stderr } = spawnSync('prlimit', [`--pid=${audited.child.pid}`, `--fsize=${bytes}:`]);
    if (status !== 0) throw new Error(String(stderr));
  };
  let stalled = false;
  return [
    {
      name: 'audit unwritable',
      process: audited,
      code: 'audit-unavailable',
      cause: /Audit records cannot be written: EFBIG/,
      remedy: /Check space/,
      begin: () => limit(readFileSync(auditFilesIn(audit.directory)[0] ?? '').length + 100),
      end: () => limit('unlimited'),
      traffic: () => audited.transfer(),
    },
    {
      name: 'log stalled',
      process: logged,
      code: 'log-lines-dropped',
      cause: /standard output accepts no lines/,
      remedy: /log collector/,
      begin() {
        logged.child.stdout?.pause();
        stalled = true;
      },
      end() {
        logged.child.stdout?.resume();
        stalled = false;
      },
      // More than a pipe holds; far less than the buffer of the log.
      traffic: () => Promise.all(Array.from({ length: stalled ? 100 : 1 }, () => logged.balance())),
    },
  ];
}

/** One after the other, since each takes the whole Vault. */
export async function vaultIncidents(start: Harness): Promise<Incident[]> {
  const gateway = await start.recordingGateway();
  const vault = start.closing(new StubVault());
  const address = await vault.listen();
  const { port } = vault;
  const admin = new VaultAdmin(address, rootToken);
  const path = 'gateway/sandbox/acme';
  vault.put(path, { control_key: 'first' });
  const process = await start.process({
    gateway: gateway.url,
    config: { keys: vaultKeys(address, {}, { cache }) },
  });
  const play = ([name, code, cause, remedy]: Row, own: Play): Incident => ({
    name,
    code,
    cause,
    remedy,
    process,
    traffic: () => process.balance(),
    ...own,
  });
  return [
    play(['Vault down', 'key-source-down', /Vault unavailable .*refused/, /do not restart/], {
      begin: () => vault.close(),
      end: () => vault.listen(port),
    }),
    play(
      [
        'Vault restored from before',
        'logins-not-found',
        /Vault does not know login acme in sandbox whose cached keys are used/,
        /a restart would lose them/,
      ],
      {
        begin: () => admin.request('DELETE', `secret/metadata/${path}`),
        end: () => vault.put(path, { control_key: 'first' }),
      },
    ),
    play(
      [
        'newest version lacks a key',
        'key-unusable',
        /Control key of acme in sandbox: version \d cannot be used/,
        /has no field control_key but controlkey.*Store a correct key/,
      ],
      {
        begin: () => vault.put(path, { controlkey: 'misspelled' }),
        end: () => vault.put(path, { control_key: 'first' }),
      },
    ),
    play(
      [
        'Vault denied',
        'key-source-denied',
        /Vault denies reading the keys of login acme in sandbox.*: Vault denied permission/,
        /no restart is needed/,
      ],
      {
        begin: () =>
          vault.fail({ kind: 'status', status: 403, errors: ['permission denied'] }, /secret\/data/),
        end: () => vault.heal(),
      },
    ),
  ];
}
