import { spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { auditFilesIn, auditIn } from './audit.ts';
import { type ConfigInput, configFor, environmentFor, everything, tokenCredential } from './config.ts';
import type { Countersign } from './countersign.ts';
import { always, freePort, httpResponse } from './faulty-gateway.ts';
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
  /** Absent: nobody needs to be called. */
  readonly alert: string | undefined;
  readonly begin: () => unknown;
  readonly end: () => unknown;
  /** Requests that notice both. */
  readonly traffic: () => Promise<unknown>;
}

type Turn = Pick<Incident, 'begin' | 'end'>;
type Play = Turn & Partial<Pick<Incident, 'traffic' | 'shows'>>;

type Row = readonly [name: string, code: string, cause: RegExp, remedy: RegExp, alert?: string];

/** Incidents of a process. @param usual requests that notice most of them */
function playOf(process: CountersignProcess, usual: (name: string) => Promise<unknown>) {
  return ([name, code, cause, remedy, alert]: Row, own: Play): Incident => {
    const traffic = () => usual(name);
    return { name, code, cause, remedy, alert, process, traffic, ...own };
  };
}

const burn = 'CountersignErrorBudgetBurn';
const rejections = 'CountersignGatewayRejections';
const keyMissing = 'CountersignKeyMissing';
const keyUnusable = 'CountersignKeyUnusable';
const skewed = 'CountersignClockSkew';
const down = 'CountersignKeySourceDown';
const ok = httpResponse('200 OK', 'OK');
const cache = { ttl: '1s', negativeTtl: '1s' };

const balance = (proxy: Countersign, environment: string, login = 'acme', headers = {}) =>
  proxy.post(`/${environment}/gw/api/v2/get-balance/manager/${login}`, '', headers);
const transfer = (proxy: Countersign, environment: string) =>
  proxy.post(`/${environment}/gw/api/v4/transfer/1234`, transferForm);

function respondWith(gateway: RecordingGateway, status: number, target = /./): Turn {
  return {
    begin() {
      gateway.respond = (response, request) =>
        response.writeHead(target.test(request.target) ? status : 200).end();
    },
    end() {
      // A key that was rejected is so until it is accepted, for which the body has to be the gateway's own.
      gateway.respond = (response) => response.setHeader('Content-Type', 'application/json').end('[]');
    },
  };
}

/** Environments of one process, each with its own gateway. */
export async function gatewayIncidents(start: Harness): Promise<Incident[]> {
  const folder = start.folder();
  const ca = new Ca(folder.path, 'ca');
  const tlsGateway = await start.gateway([always(ok)], ca.issue('gateway'));
  const old = ca.issue('old', { from: Date.now() - 10 * 86_400_000, until: Date.now() + 3_600_000 });
  const caFile = folder.at('gateway-ca.pem');
  copyFileSync(ca.file, caFile);
  const port = await freePort();
  const oidc = start.closing(await startOidcServer());
  const names =
    'refused dns hang errors one all payments full skew clock login caller silent removed kind malformed'.split(
      ' ',
    );
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
  const config = (changes: Readonly<Record<string, object>> = {}): ConfigInput => ({
    ...configFor(closed, { keys: { source: 'directory', directory: './keys', cache } }),
    callers: [
      { name: 'local', credentials: [{ anonymous: true }], allow: [everything] },
      { name: 'greedy', credentials: [tokenCredential('greedy')], maxInFlight: 1, allow: [everything] },
    ],
    jwtIssuers: jwtConfig(oidc).jwtIssuers,
    environments: {
      tls: environment(tlsGateway.url, { caFile }),
      certificate: environment('https://127.0.0.1:1', { caFile }),
      ...Object.fromEntries(names.map((name) => [name, environment(gateway(name).url)])),
      full: environment(gateway('full').url, { maxInFlight: 1 }),
      silent: environment(gateway('silent').url, { timeouts: { request: '2m', connect: '1s' } }),
      ...changes,
    },
  });
  const served = start.spawn({ file: config() });
  const process = await listening(served);
  const keys = join(process.folder, 'keys');
  for (const name of ['tls', ...names]) {
    for (const login of ['acme', 'beta']) writeKeys(keys, name, login, testKeys);
  }
  const changes: Record<string, object> = {};
  const reload = async (): Promise<void> => {
    const reloads = (): number => process.logLines('configuration reloaded').length;
    const before = reloads();
    process.rewrite(config(changes));
    process.signal('SIGHUP');
    await until(() => reloads() > before, 'the configuration is reloaded', 30);
  };
  /** In effect with the next reload. */
  const changed = (name: string, bad: object): Turn => ({
    begin: () => void Object.assign(changes, { [name]: bad }),
    end: () => void delete changes[name],
  });
  const file = (name: string, path: string, content?: string): Turn => ({
    begin: () =>
      content === undefined
        ? rmSync(join(keys, name, path), { recursive: true })
        : writeFileSync(join(keys, name, path), content),
    end: () => writeKeys(keys, name, 'acme', testKeys),
  });
  const play = playOf(process, (name) => balance(process, name));
  const responding = (name: string, respond: RecordingGateway['respond']): Turn => ({
    begin: () => void (gateway(name).respond = respond),
    end: () => void (gateway(name).respond = (response) => response.end('OK')),
  });
  /** More requests at a time than a limit allows, to a gateway that takes its time. */
  const burst = (name: string, many: number, post: () => Promise<unknown>): Play => {
    let size = 1;
    const { begin, end } = responding(name, (response) => void setTimeout(() => response.end('OK'), 500));
    return {
      begin: () => [(size = many), begin()],
      end: () => [(size = 1), end()],
      traffic: () => Promise.all(Array.from({ length: size }, post)),
    };
  };
  const longAgo = { Date: 'Wed, 01 Jan 2025 00:00:00 GMT' };
  const waiting: ServerResponse[] = [];
  const responses: Promise<unknown>[] = [];
  const both = (name: string) => async () => {
    await balance(process, name);
    await balance(process, name, 'beta');
  };
  return [
    play(
      ['refused', 'gateway-unreachable', /refused: .*connection refused/, /baseUrl/, burn],
      changed('refused', environment(closed)),
    ),
    play(
      ['dns', 'gateway-unreachable', /dns: .*\(DNS\)/, /DNS on this host/, burn],
      changed('dns', environment('https://no-such-host.invalid')),
    ),
    play(
      ['tls', 'gateway-unreachable', /TLS handshake/, /caFile/, burn],
      changed('tls', environment(tlsGateway.url)),
    ),
    play(
      ['hang', 'gateway-timeout', /hang: .*not respond in time/, /timeouts\.request/, burn],
      responding('hang', () => {}),
    ),
    play(
      ['errors', 'gateway-server-error', /errors: .*server errors \(500\)/, /support of the gateway/, burn],
      respondWith(gateway('errors'), 500),
    ),
    play(
      ['one', 'key-rejected', /beta in one: the gateway rejects/, /store it in the key source/, rejections],
      { ...respondWith(gateway('one'), 403, /beta/), traffic: both('one') },
    ),
    play(
      ['all', 'gateway-blocks', /all responds with 401 or 403 to every/, /Do not store new keys/, rejections],
      { ...respondWith(gateway('all'), 403), traffic: both('all') },
    ),
    play(
      [
        'payments',
        'outcome-unknown',
        /of payments in the last hour sent without/,
        /Query the order status/,
        'CountersignOutcomeUnknown',
      ],
      {
        ...responding('payments', () => {}),
        traffic: () => transfer(process, 'payments'),
        shows: 'invoice-7',
      },
    ),
    play(
      ['full', 'saturated', /full: .*maxInFlight.* of local failed/, /gateway slow/, 'CountersignSaturated'],
      burst('full', 4, () => balance(process, 'full')),
    ),
    play(
      [
        'skew',
        'clock-skew',
        /clock of the gateway of skew is \d+ days behind/,
        /off: ask its support/,
        skewed,
      ],
      responding('skew', (response) => response.writeHead(200, longAgo).end('OK')),
    ),
    play(
      [
        'clock',
        'clock-skew',
        /clock .* of clock is \d+ days behind .*are 401 or 403, .*not because of a key/,
        /likelier off: ask its support/,
        skewed,
      ],
      {
        ...responding('clock', (response) => response.writeHead(403, longAgo).end()),
        traffic: both('clock'),
      },
    ),
    play(
      ['login', 'gateway-server-error', /login: .* requests? of beta failed/, /support of the gateway/, burn],
      { ...respondWith(gateway('login'), 500, /beta/), traffic: both('login') },
    ),
    play(
      ['caller', 'caller-limited', /greedy sends more requests .* got 429/, /maxInFlight/],
      burst('caller', 3, () => balance(process, 'caller', 'acme', { Authorization: 'Bearer greedy' })),
    ),
    play(['silent', 'gateway-silent', /silent: no request has ended for/, /check --online/, burn], {
      begin() {
        gateway('silent').respond = (response) => void waiting.push(response);
        for (const login of ['acme', 'beta']) responses.push(balance(process, 'silent', login));
      },
      async end() {
        for (const response of waiting) response.end('OK');
        await Promise.all(responses);
      },
      traffic: async () => {},
    }),
    play(
      ['removed', 'key-missing', /removed: a login has no key of either .* acme/, /Store it/, keyMissing],
      file('removed', 'acme'),
    ),
    play(['kind', 'key-missing', /kind: a login has no RSA key; .* of acme/, /Store it/, keyMissing], {
      ...file('kind', 'acme/private_key.pem'),
      traffic: () => transfer(process, 'kind'),
    }),
    play(
      ['malformed', 'key-unusable', /RSA key of acme in malformed: /, /not a PEM.*Store a/i, keyUnusable],
      file('malformed', 'acme/private_key.pem', 'garbage'),
    ),
    play(
      [
        'certificate',
        'certificate-expiring',
        /of certificate expires/,
        /Renew/,
        'CountersignCertificateExpiring',
      ],
      {
        begin: () => copyFileSync(old.certFile, caFile),
        end: () => copyFileSync(ca.file, caFile),
        traffic: async () => {},
      },
    ),
    play(
      ['issuer', 'jwt-keys-stale', /idp cannot be fetched: /, /check --online/, 'CountersignJwtKeysStale'],
      { begin: () => oidc.fail(), end: () => oidc.recover(), traffic: async () => {} },
    ),
    play(['reload', 'config-reload-failed', /reload failed; /, /Correct/, 'CountersignConfigReloadFailed'], {
      // The last one: the changes of the others come into effect first.
      async begin() {
        await reload();
        process.rewrite('environments: [');
        process.signal('SIGHUP');
      },
      end: reload,
      traffic: async () => {},
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
    playOf(audited, () => audited.transfer())(
      ['audit', 'audit-unavailable', /be written: EFBIG/, /Check space/, 'CountersignAuditUnavailable'],
      {
        begin: () => limit(readFileSync(auditFilesIn(audit.directory)[0] ?? '').length + 100),
        end: () => limit('unlimited'),
      },
    ),
    // More than a pipe holds; far less than the buffer of the log.
    playOf(logged, () => Promise.all(Array.from({ length: stalled ? 100 : 1 }, () => logged.balance())))(
      ['log', 'log-lines-dropped', /accepts no lines/, /log collector/, 'CountersignLogLinesDropped'],
      {
        begin: () => [(stalled = true), logged.child.stdout?.pause()],
        end: () => [(stalled = false), logged.child.stdout?.resume()],
      },
    ),
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
  const play = playOf(process, () => process.balance());
  return [
    play(
      ['Vault down', 'key-source-down', /Vault at \S+:\d+ unavailable .*refused/, /do not restart/, down],
      { begin: () => vault.close(), end: () => vault.listen(port) },
    ),
    play(
      ['Vault sealed', 'key-source-down', /Vault at \S+:\d+ unavailable .*sealed/, /do not restart/, down],
      { begin: () => void (vault.sealed = true), end: () => vault.heal() },
    ),
    play(
      [
        'Vault restored from before',
        'logins-not-found',
        /Vault does not know login acme in sandbox whose cached keys are used/,
        /a restart would lose them/,
        'CountersignLoginsNotFound',
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
        keyUnusable,
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
        down,
      ],
      {
        begin: () =>
          vault.fail({ kind: 'status', status: 403, errors: ['permission denied'] }, /secret\/data/),
        end: () => vault.heal(),
      },
    ),
  ];
}
