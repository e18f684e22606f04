import { isDeepStrictEqual } from 'node:util';
import type { KeysConfig } from '../config/schema.ts';
import { KeyCache } from '../keys/key-cache.ts';
import { KeySelector } from '../keys/key-selector.ts';
import type {
  KeyRing,
  KeySource,
  KeySourceObserver,
  LoginRef,
  LostKey,
  RingRemoval,
  SigningObserver,
  SignRemotely,
  TransitResult,
} from '../keys/key-source.ts';
import type { VaultOptions } from '../keys/vault/source.ts';
import type { DebugLog } from '../observability/debug-log.ts';
import type { EventObserver } from '../observability/events.ts';
import type { Logger } from '../observability/logger.ts';
import { createOutageLog, createSteadyState, type SteadyState } from '../observability/outage-log.ts';
import { type Secret, sameSecret } from '../secret.ts';
import type { TlsMaterial } from '../tls/material.ts';
import { setTimer } from '../util/clock.ts';
import { createKeySource, silentObserver } from './open-key-source.ts';

interface KeyServicesOptions extends Omit<VaultOptions, 'events' | 'tls'> {
  readonly log: Logger;
  readonly metrics: EventObserver;
  /** At log level `debug` only. */
  readonly decisions?: DebugLog | undefined;
}

/** The key source, key cache and key selector of one configuration. */
export interface KeyServices {
  readonly config: KeysConfig;
  readonly source: KeySource;
  readonly cache: KeyCache;
  readonly keySelector: KeySelector;
  readonly events: Events;
  readonly reports: SourceReports;
  /** What the key selector and the signing pool use. It survives a reload. */
  readonly inUse: InUse;
  /** Absent if the source has no keys that do not leave it. */
  readonly signRemotely: SignRemotely | undefined;
  /** @param next what replaces these services; it keeps running what it uses too */
  stop(next?: KeyServices): Promise<void>;
}

type Events = KeySourceObserver & SigningObserver;

interface SourceReports {
  readonly events: Events;
  /** A reload replaced the source: what it still does says nothing about the next one. */
  end(): void;
}

interface InUse {
  source: KeySource;
  cache: KeyCache;
  rotationGracePeriod: number;
}

/**
 * Opens the key source with a cache. Keeps the parts of the previous services that the change does not affect: the
 * rings and the key history if the keys are in the same place, and the source with its login if only the cache
 * settings differ.
 *
 * @throws Error for a source that cannot be opened; the previous services are unchanged then
 */
export function createKeyServices(
  config: KeysConfig,
  tls: TlsMaterial,
  options: KeyServicesOptions,
  previous?: KeyServices,
): KeyServices {
  const before = previous !== undefined && sameStore(previous.config, config) ? previous : undefined;
  const keepsSource = before !== undefined && sameSource(before.config, config);
  if (keepsSource) before.source.useTls?.(tls);
  before?.keySelector.lookAgain();
  if (keepsSource && isDeepStrictEqual(before.config.cache, config.cache)) return before;
  const events = before?.events ?? createEvents(options, config.source);
  const reports = keepsSource ? before.reports : reportsTo(events, options);
  if (before === undefined) events.loginsDenied(0, '');
  const sourceOptions = { ...options, events: reports.events, tls };
  const source = keepsSource ? before.source : createKeySource(config, sourceOptions);
  const { monotonic, random } = options;
  const cache: KeyCache = new KeyCache(source, config.cache, {
    monotonic,
    random,
    events: reports.events,
    sourceName: config.source,
    recovered: () => keySelector.lookAgain(),
  });
  if (before !== undefined) cache.adopt(before.cache);
  const current: InUse = { source, cache, rotationGracePeriod: config.rotationGracePeriod };
  const inUse = Object.assign(before?.inUse ?? current, current);
  const keySelector = before?.keySelector ?? createKeySelector(inUse, events, options);
  if (!keepsSource) source.start();
  cache.start();
  return {
    config,
    source,
    cache,
    keySelector,
    events,
    reports,
    inUse,
    signRemotely: source.sign && ((...request) => signIn(inUse.source, ...request)),
    async stop(next) {
      if (next?.cache !== cache) cache.stop();
      if (next !== undefined && next.inUse !== inUse) cache.retire();
      if (next?.source === source) return;
      reports.end();
      await source.stop();
    },
  };
}

/** A reload may have replaced the source since the request began. */
function signIn({ sign }: KeySource, ...request: Parameters<SignRemotely>): Promise<string> {
  if (sign === undefined) throw new TypeError('the key source does not sign');
  return sign(...request);
}

function reportsTo(events: Events, { monotonic }: KeyServicesOptions): SourceReports {
  let observer: Events = events;
  const report: Events['keySourceUp'] = (...facts) => observer.keySourceUp(...facts);
  const state = createSteadyState({ monotonic, setTimer, report });
  return {
    events: {
      ...events,
      keySourceUp: (up, cause = 'unknown') => (up ? state.responded() : state.failed(cause)),
      loginsDenied: (...facts) => observer.loginsDenied(...facts),
      loginFailed: (problem) => {
        observer.loginFailed(problem);
        state.failed(problem);
      },
      tokenExpiryChanged: (...facts) => observer.tokenExpiryChanged(...facts),
    },
    end() {
      observer = silentObserver;
    },
  };
}

function createKeySelector(
  inUse: InUse,
  events: KeySourceObserver,
  { metrics, decisions, clock, monotonic }: KeyServicesOptions,
): KeySelector {
  return new KeySelector({
    keys: {
      get: (login, deadline, kind) => inUse.cache.get(login, deadline, kind),
      cached: (login) => inUse.cache.cached(login),
      isFailing: () => inUse.cache.isFailing(),
      keep: (login, key) => inUse.cache.keep(login, key),
      look(login) {
        decisions?.keysRefreshed(login);
        return inUse.cache.look(login);
      },
    },
    metrics: { ...metrics, ...events },
    clock,
    monotonic,
    setTimer,
    get rotationGracePeriod() {
      return inUse.rotationGracePeriod;
    },
  });
}

/** Whether a login has the same secret in both. */
function sameStore(a: KeysConfig, b: KeysConfig): boolean {
  if (a.source === 'directory') return b.source === 'directory' && a.directory === b.directory;
  const placeOf = ({ address, namespace, mount, path, transit }: typeof a.vault) => [
    address,
    namespace,
    mount,
    path,
    transit?.mounts,
  ];
  return b.source === 'vault' && isDeepStrictEqual(placeOf(a.vault), placeOf(b.vault));
}

/** A comparison by fields finds a secret in the same places of both, but cannot see into it. */
function sameSource(a: KeysConfig, b: KeysConfig): boolean {
  const others = secretsIn(b);
  return (
    isDeepStrictEqual({ ...a, cache: b.cache }, b) &&
    secretsIn(a).every((secret, index) => sameSecret(secret, others[index] ?? secret))
  );
}

function secretsIn(keys: KeysConfig): Secret[] {
  if (keys.source === 'directory') return [];
  const { auth, egressProxy } = keys.vault;
  const token = auth.method === 'token' ? auth.token : undefined;
  return [token, egressProxy?.password].filter((secret) => secret !== undefined);
}

const signingMessages = { failed: 'Vault does not sign', recovered: 'Vault signs again' };

const denialMessages = {
  failed: 'key source denies reading keys',
  recovered: 'key source permits reading keys again',
};

/** Counts and logs key errors, since an operator must act on them. */
function createEvents({ metrics, log, monotonic }: KeyServicesOptions, source: string): Events {
  const outage = createOutageLog({ log, monotonic, source });
  const notFound = notFoundLog(log);
  const denial = createOutageLog({ log, monotonic, source, messages: denialMessages });
  const signing = signingLog(log, monotonic);
  return {
    ...metrics,
    keyRingUpdated: (login, ring, removal = 'deleted', lost = []) => {
      metrics.keyRingUpdated(login, ring, removal, lost);
      if (ring === undefined) logRemoval(log, login, removal);
      else logRing(log, login, ring, lost);
    },
    loginsNotFound: (count, login) => {
      metrics.loginsNotFound(count, login);
      notFound(count, login);
    },
    keySourceUp: (up, cause = 'unknown') => {
      metrics.keySourceUp(up, cause);
      if (up) outage.answered();
      else outage.failed(cause);
    },
    loginsDenied: (logins, cause) => {
      metrics.loginsDenied(logins, cause);
      if (logins === 0) denial.answered();
      else denial.failed(cause);
    },
    transitSigned: (environment, result, seconds, problem) => {
      metrics.transitSigned(environment, result, seconds, problem);
      signing(environment, result, problem);
    },
    loginFailed: (problem) => {
      metrics.loginFailed(problem);
      outage.failed(problem);
    },
    keyProblem: (problem, login) => {
      metrics.keyProblem(problem, login);
      log.message('error', problem, { ...login });
    },
  };
}

/** An outage of each environment. What concerns the key of one login is logged when that is read again. */
function signingLog(log: Logger, monotonic: () => number) {
  const environments = new Map<string, SteadyState>();
  const stateOf = (environment: string): SteadyState => {
    const known = environments.get(environment);
    if (known !== undefined) return known;
    const outage = createOutageLog({ log, monotonic, source: environment, messages: signingMessages });
    const report = (up: boolean, cause = 'unknown'): void => (up ? outage.answered() : outage.failed(cause));
    const state = createSteadyState({ monotonic, setTimer, report });
    environments.set(environment, state);
    return state;
  };
  return (environment: string, result: TransitResult, problem = 'unknown'): void => {
    if (result === 'ok') stateOf(environment).responded();
    if (result === 'unavailable' || result === 'denied') stateOf(environment).failed(problem);
  };
}

/** A store that lost all its logins is one problem: a line for the first, and whenever their number has doubled. */
function notFoundLog(log: Logger): KeySourceObserver['loginsNotFound'] {
  let reported = 0;
  return (count, login) => {
    if (login !== undefined && count >= 2 * reported) {
      log.message('error', 'login not found in the key source; its cached keys are used', {
        ...login,
        logins: count,
      });
      reported = count;
    }
    if (count > 0 || reported === 0) return;
    log.message('info', 'no login with cached keys is missing in the key source any more');
    reported = 0;
  };
}

/** The newest version of a secret that lacks a key which the one before had was hardly meant so. */
function logRing(log: Logger, login: LoginRef, ring: KeyRing, lost: readonly LostKey[]): void {
  const versions = ring.map(({ kind, version }) => `${kind} ${version}`).join(', ');
  if (lost.length === 0) log.message('info', 'keys updated', { ...login, versions });
  for (const { kind, version } of lost) {
    log.message('warn', 'key missing in the key source', { ...login, kind, version });
  }
  for (const entry of ring) {
    if ('problem' in entry && entry.supersededAt === undefined)
      log.message('error', entry.problem, { ...login, kind: entry.kind, version: entry.version });
  }
}

/** Requests of a login without keys fail. A ring that leaves the cache is harmless. */
function logRemoval(log: Logger, login: LoginRef, removal: RingRemoval): void {
  if (removal === 'deleted') log.message('warn', 'keys deleted in the key source', { ...login });
  else log.message('info', 'keys removed from the cache', { ...login, cause: removal });
}
