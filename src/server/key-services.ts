import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { KeysConfig } from '../config/schema.ts';
import { KeyCache } from '../keys/key-cache.ts';
import { KeySelector } from '../keys/key-selector.ts';
import type { KeyRing, KeySource, KeySourceObserver, LoginRef, RingRemoval } from '../keys/key-source.ts';
import type { Logger } from '../observability/logger.ts';
import type { MetricsObserver } from '../observability/metrics-observer.ts';
import { OutageLog } from '../observability/outage-log.ts';
import { type Secret, sameSecret } from '../secret.ts';
import type { TlsMaterial } from '../tls/material.ts';
import { createKeySource, type KeySourceOptions } from './key-source.ts';

export interface KeyServicesOptions extends Omit<KeySourceOptions, 'events' | 'tls'> {
  readonly log: Logger;
  readonly metrics: MetricsObserver;
}

/** The cached keys of one configuration, where they come from, and which of them the gateway takes. */
export interface KeyServices {
  readonly config: KeysConfig;
  readonly source: KeySource;
  readonly cache: KeyCache;
  readonly rotation: KeySelector;
  readonly events: KeySourceObserver;
  /** What the rotation works with, which outlives a change of the configuration. */
  readonly inUse: InUse;
}

interface InUse {
  cache: KeyCache;
  rotationGracePeriod: number;
}

/**
 * Opens the key source and a cache around it. Of the stock before it keeps all that is not affected by what
 * changed: the rings and what is known of the gateway's preferences where the secrets are in the same place, the
 * source and its login where only the cache is configured otherwise.
 *
 * @throws Error for a source that cannot be opened; nothing has been changed then
 */
export function createKeyServices(
  config: KeysConfig,
  tls: TlsMaterial,
  ports: KeyServicesOptions,
  previous?: KeyServices,
): KeyServices {
  const before = previous !== undefined && samePlace(previous.config, config) ? previous : undefined;
  const keepsSource = before !== undefined && sameSource(before.config, config);
  if (keepsSource) before.source.useTls?.(tls);
  if (keepsSource && isDeepStrictEqual(before.config.cache, config.cache)) return before;
  const events = before?.events ?? createEvents(ports, config.source);
  const source = keepsSource ? before.source : createKeySource(config, { ...ports, events, tls });
  const { monotonic, random } = ports;
  const cache = new KeyCache(source, config.cache, { monotonic, random, events, sourceName: config.source });
  if (before !== undefined) cache.adopt(before.cache);
  const inUse = before?.inUse ?? { cache, rotationGracePeriod: config.rotationGracePeriod };
  Object.assign(inUse, { cache, rotationGracePeriod: config.rotationGracePeriod });
  const rotation = before?.rotation ?? createRotation(inUse, events, ports);
  if (!keepsSource) source.start();
  cache.start();
  return { config, source, cache, rotation, events, inUse };
}

function createRotation(
  inUse: InUse,
  events: KeySourceObserver,
  { metrics: meter, clock, monotonic }: KeyServicesOptions,
): KeySelector {
  return new KeySelector({
    keys: {
      get: (address) => inUse.cache.get(address),
      refresh: (address) => inUse.cache.refresh(address),
    },
    metrics: { ...events, keyFallback: (...fallback) => meter.keyFallback(...fallback) },
    clock,
    monotonic,
    wait: (milliseconds) => pause(milliseconds, undefined, { ref: false }),
    get rotationGracePeriod() {
      return inUse.rotationGracePeriod;
    },
  });
}

/** Whether the same login has the same secret in both. */
function samePlace(a: KeysConfig, b: KeysConfig): boolean {
  if (a.source === 'directory') return b.source === 'directory' && a.directory === b.directory;
  const placeOf = ({ address, namespace, mount, path }: typeof a.vault) => [address, namespace, mount, path];
  return b.source === 'vault' && isDeepStrictEqual(placeOf(a.vault), placeOf(b.vault));
}

/** A comparison by fields cannot see into the secret that a Vault token is. */
function sameSource(a: KeysConfig, b: KeysConfig): boolean {
  const [token, other] = [tokenOf(a), tokenOf(b)];
  const sameFields = isDeepStrictEqual({ ...a, cache: b.cache }, b);
  return sameFields && (token === undefined || other === undefined || sameSecret(token, other));
}

function tokenOf(keys: KeysConfig): Secret | undefined {
  return keys.source === 'vault' && keys.vault.auth.method === 'token' ? keys.vault.auth.token : undefined;
}

/** Key trouble is counted and told: a person has to act on it. */
function createEvents(
  { metrics: meter, log, monotonic }: KeyServicesOptions,
  source: string,
): KeySourceObserver {
  const outage = new OutageLog({ log, monotonic, source });
  return {
    keyLookup: (environment, result) => meter.keyLookup(environment, result),
    keyFetched: (source, seconds) => meter.keyFetched(source, seconds),
    keyRingUpdated: (address, ring, removal = 'deleted') => {
      meter.keyRingUpdated(address, ring, removal);
      if (ring === undefined) logRemoval(log, address, removal);
      else logRing(log, address, ring);
    },
    keySourceUp: (up, cause = 'unknown') => {
      meter.keySourceUp(up);
      if (up) outage.answered();
      else outage.failed(cause);
    },
    loginFailed: (problem) => {
      meter.loginFailed(problem);
      outage.failed(problem);
    },
    tokenExpiryChanged: (at, leaseSeconds) => meter.tokenExpiryChanged(at, leaseSeconds),
    keyProblem: (problem, about) => {
      meter.keyProblem(problem, about);
      log.message('error', problem, { ...about });
    },
  };
}

function logRing(log: Logger, address: LoginRef, ring: KeyRing): void {
  const versions = ring.map(({ kind, version }) => `${kind} ${version}`).join(', ');
  log.message('info', 'keys changed', { ...address, versions });
  for (const entry of ring) {
    if ('problem' in entry && entry.supersededAt === undefined)
      log.message('error', entry.problem, { ...address, kind: entry.kind, version: entry.version });
  }
}

/** A login without keys fails from now on; that a ring left the cache is no trouble. */
function logRemoval(log: Logger, address: LoginRef, removal: RingRemoval): void {
  if (removal === 'deleted') log.message('warn', 'keys deleted in the key source', { ...address });
  else log.message('info', 'keys left the cache', { ...address, cause: removal });
}
