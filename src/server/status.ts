import type { KeySet } from '../auth/jwt/key-set.ts';
import type { Config } from '../config/schema.ts';
import type { CachedRing } from '../keys/cache-store.ts';
import { referenceOf } from '../keys/key.ts';
import type { KeyRing, LoginRef } from '../keys/key-source.ts';
import type { LoginRedactor } from '../observability/login-redactor.ts';
import type { Readiness } from '../observability/readiness.ts';
import { withFindings } from '../observability/status/findings.ts';
import type { MissingKey } from '../observability/status/missing-keys.ts';
import type { StatusRecorder } from '../observability/status/recorder.ts';
import type { KeyStatus, Status } from '../observability/status/schema.ts';
import type { ConcurrencyLimiter } from '../proxy/limits.ts';
import { isoTime, type MonotonicClock, type WallClock } from '../util/clock.ts';
import { packageVersion } from '../util/package-info.ts';
import type { KeyServices } from './key-services.ts';

/** Rows of the list; a page with all logins would be neither fast nor readable. */
const maxKeys = 200;

const kinds: readonly KeyStatus['kind'][] = ['control_key', 'private_key'];

type KeysInUse = Pick<KeyServices, 'cache' | 'keySelector'>;

interface KeyStatusOptions {
  /** Removes logins that may not be written from a text. */
  readonly redact: (text: string) => string;
  readonly recorder: Pick<StatusRecorder, 'missingKeys' | 'readProblem'>;
  /** A monotonic time in milliseconds as ISO 8601. */
  readonly timeOf: (monotonic: number) => string;
}

/** Their keys. */
type JwtIssuersInUse = {
  readonly list: readonly { readonly name: string; readonly keys: Pick<KeySet, 'available' | 'problem'> }[];
};

export interface StatusSources extends WallClock, MonotonicClock {
  readonly recorder: StatusRecorder;
  readonly limiter: ConcurrencyLimiter;
  /** Removes logins that may not be written. */
  readonly redactor: Pick<LoginRedactor, 'text'>;
  readonly readiness: () => Readiness;
  /** What is in effect now. */
  readonly runtime: () => {
    readonly config: Config;
    readonly keys: KeysInUse;
    readonly jwtIssuers: JwtIssuersInUse;
  };
}

/** Puts the status together on demand. */
export function createStatus(sources: StatusSources): () => Promise<Status> {
  const { clock, monotonic, recorder, redactor, readiness } = sources;
  const started = { wall: clock(), monotonic: monotonic() };
  return async () => {
    const { config, keys, jwtIssuers } = sources.runtime();
    const now = clock();
    const toWall = now - monotonic();
    const timeOf = (time: number): string => isoTime(time + toWall);
    const { ready, reasons, warnings } = readiness();
    return withFindings({
      at: isoTime(now),
      runbookUrl: config.admin.runbookUrl ?? null,
      health: { ready, reasons: [...reasons], warnings: [...warnings] },
      environments: environments(config, sources, timeOf),
      keys: keyStatus(keys, { redact: redactor.text, timeOf, recorder }),
      callers: callers(config, recorder),
      failures: recorder.failures().map((failure) => ({ ...failure, at: isoTime(failure.at) })),
      uncertainPayments: recorder.uncertainPayments().map(({ at, requestId, environment, outcome }) => ({
        at: isoTime(at),
        requestId,
        environment,
        outcome,
      })),
      certificates: certificates(recorder),
      jwtIssuers: jwtIssuers.list.map(({ name, keys: { available, problem = null } }) => ({
        name,
        available,
        problem: problem === null ? null : redactor.text(problem),
      })),
      audit: audit(recorder),
      keySource: keySource(config, recorder),
      process: {
        version: packageVersion(),
        node: process.version,
        startedAt: isoTime(started.wall),
        uptime: Math.round(monotonic() - started.monotonic) / 1000,
      },
      config: { ...recorder.config(), loadedAt: isoTime(recorder.config().loadedAt) },
    });
  };
}

function environments(
  config: Config,
  { recorder, limiter }: StatusSources,
  timeOf: (monotonic: number) => string,
): Status['environments'] {
  return Object.entries(config.environments).map(([name, { baseUrl, maxInFlight }]) => {
    const recorded = recorder.environment(name);
    return {
      name,
      gatewayHost: new URL(baseUrl).host,
      inFlight: limiter.inFlight(name),
      maxInFlight,
      requestsPerSecond: recorded?.requestsPerSecond ?? 0,
      rejectedShare: recorded?.rejectedShare ?? null,
      failedShare: recorded?.failedShare ?? null,
      failures: (recorded?.failures ?? []).map(({ detail = null, lastAt, ...rest }) => ({
        ...rest,
        detail,
        lastAt: timeOf(lastAt),
      })),
      logins: recorded?.logins ?? { accepted: 0, rejected: 0 },
      latency: recorded?.latency ?? null,
      clockSkew: recorded?.clockSkew ?? null,
    };
  });
}

function callers(config: Config, recorder: StatusRecorder): Status['callers'] {
  const modes = new Map(config.callers.map(({ name, mode }) => [name, mode]));
  return recorder.callers().map(({ name, requests, denied, lastSeenAt }) => ({
    name,
    mode: modes.get(name) ?? 'enforce',
    requests,
    denied,
    lastSeenAt: orNull(lastSeenAt),
  }));
}

function audit(recorder: StatusRecorder): Status['audit'] {
  const state = recorder.audit();
  return state === undefined ? null : { up: state.up, problem: state.problem ?? null };
}

function certificates(recorder: StatusRecorder): Status['certificates'] {
  return recorder.certificates().map(({ name, environment = null, from, until }) => ({
    name,
    environment,
    from: isoTime(from),
    until: isoTime(until),
  }));
}

function keySource({ keys }: Config, recorder: StatusRecorder): Status['keySource'] {
  const {
    state = null,
    since,
    deniedLogins,
    loginsNotFound,
    problem = null,
    tokenExpiresAt,
  } = recorder.keySource();
  const times = { since: orNull(since), tokenExpiresAt: orNull(tokenExpiresAt) };
  return { type: keys.source, state, deniedLogins, loginsNotFound, problem, ...times };
}

function orNull(time: number | undefined): string | null {
  return time === undefined ? null : isoTime(time);
}

/** The keys in the cache and those that vanished, one row per login and kind. */
function keyStatus(keys: KeysInUse, options: KeyStatusOptions): Status['keys'] {
  const missing = new Map(options.recorder.missingKeys().map((key) => [nameOf(key, key.kind), key]));
  const list: KeyStatus[] = [];
  let total = 0;
  for (const cached of keys.cache.cachedRings()) {
    for (const kind of kinds) {
      if (!cached.ring.some((entry) => entry.kind === kind)) continue;
      const name = nameOf(cached.login, kind);
      total += 1;
      if (list.length < maxKeys) list.push(rowOf(cached, kind, keys, options, missing.get(name)));
      missing.delete(name);
    }
  }
  const gone = Array.from(missing.values(), (key) => goneRow(key, options));
  return { total: total + gone.length, list: [...gone, ...list].slice(0, maxKeys) };
}

function nameOf({ environment, login }: LoginRef, kind: KeyStatus['kind']): string {
  return `${environment}/${login} ${kind}`;
}

/** No version of it is left. */
function goneRow(
  { environment, login, kind, version, since }: MissingKey,
  { redact }: KeyStatusOptions,
): KeyStatus {
  return {
    environment,
    login: redact(login),
    kind,
    newestVersion: version,
    signingVersion: null,
    versions: [],
    readAt: isoTime(since),
    staleSince: null,
    readProblem: null,
    missingSince: isoTime(since),
    nextRefreshAt: null,
  };
}

function rowOf(
  { login: ref, ring, times }: CachedRing,
  kind: KeyStatus['kind'],
  { keySelector }: KeysInUse,
  { redact, timeOf, recorder }: KeyStatusOptions,
  missing: MissingKey | undefined,
): KeyStatus {
  const { readAt, staleSince, nextRefreshAt } = times();
  const { versions, signing } = keySelector.describe(ref, kind, ring);
  return {
    environment: ref.environment,
    login: redact(ref.login),
    kind,
    newestVersion: versions[0]?.entry.version ?? 0,
    signingVersion: signing?.version ?? null,
    versions: versions.map(({ entry, state, verdict = null }) => ({
      state,
      verdict,
      ...factsOf(entry, redact),
    })),
    readAt: timeOf(readAt),
    staleSince: staleSince === undefined ? null : timeOf(staleSince),
    readProblem: staleSince === undefined ? null : (recorder.readProblem(ref) ?? null),
    missingSince: missing === undefined ? null : isoTime(missing.since),
    nextRefreshAt: nextRefreshAt === undefined ? null : timeOf(nextRefreshAt),
  };
}

function factsOf(entry: KeyRing[number], redact: KeyStatusOptions['redact']) {
  return {
    version: entry.version,
    createdAt: entry.createdAt === undefined ? null : isoTime(entry.createdAt.getTime()),
    fingerprint: 'key' in entry ? (entry.fingerprint ?? null) : null,
    transitKey: 'key' in entry && 'publicKey' in entry.key ? redact(referenceOf(entry.key)) : null,
    problem: 'problem' in entry ? redact(entry.problem) : null,
  };
}
