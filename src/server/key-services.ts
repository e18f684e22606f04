import { isDeepStrictEqual } from 'node:util';
import type { KeysConfig } from '../config/schema.ts';
import { createDirectorySource } from '../keys/directory/source.ts';
import { KeyCache } from '../keys/key-cache.ts';
import { KeySelector } from '../keys/key-selector.ts';
import {
  type KeySource,
  type KeySourceObserver,
  type SignRemotely,
  silentObserver,
} from '../keys/key-source.ts';
import { connectVault, createVaultSource, type VaultOptions } from '../keys/vault/source.ts';
import type { DebugLog } from '../observability/debug-log.ts';
import type { EventObserver } from '../observability/events.ts';
import { createSteadyState } from '../observability/outages.ts';
import { type Secret, sameSecret } from '../secret.ts';
import type { TlsMaterial } from '../tls/material.ts';
import { setTimer } from '../util/clock.ts';

interface KeyServicesOptions extends Omit<VaultOptions, 'events' | 'tls'> {
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
  readonly reports: SourceReports;
  /** What the key selector and the signing pool use. It survives a reload. */
  readonly inUse: InUse;
  /** Absent if the source has no keys that do not leave it. */
  readonly signRemotely: SignRemotely | undefined;
  /** @param next what replaces these services; it keeps running what it uses too */
  stop(next?: KeyServices): Promise<void>;
}

interface SourceReports {
  readonly events: EventObserver;
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
  const reports = keepsSource ? before.reports : reportsTo(options);
  const sourceOptions = { ...options, events: reports.events, tls };
  const source = keepsSource ? before.source : createKeySource(config, sourceOptions);
  const { metrics, monotonic, random } = options;
  if (previous !== undefined && !keepsSource) metrics.keySourceReplaced(config.source, before !== undefined);
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
  const keySelector = before?.keySelector ?? createKeySelector(inUse, options);
  if (!keepsSource) source.start();
  cache.start();
  return {
    config,
    source,
    cache,
    keySelector,
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

/** Creates the configured key source without starting it. */
function createKeySource(keys: KeysConfig, options: VaultOptions): KeySource {
  if (keys.source === 'directory') return createDirectorySource({ ...keys, now: options.clock });
  return createVaultSource(connectVault(keys.vault, options), keys.rotationGracePeriod, options);
}

/** A reload may have replaced the source since the request began. */
function signIn({ sign }: KeySource, ...request: Parameters<SignRemotely>): Promise<string> {
  if (sign === undefined) throw new TypeError('the key source does not sign');
  return sign(...request);
}

function reportsTo({ metrics, monotonic }: KeyServicesOptions): SourceReports {
  let observer: KeySourceObserver = metrics;
  const report: KeySourceObserver['keySourceUp'] = (...facts) => observer.keySourceUp(...facts);
  const state = createSteadyState({ monotonic, setTimer, report });
  return {
    events: {
      ...metrics,
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
    metrics,
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
