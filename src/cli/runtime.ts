import type { RequestListener } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { type AppPorts, createApp } from '../app.ts';
import type { Config, KeysConfig } from '../config/shape.ts';
import { operationsOf } from '../gateway/operations.ts';
import { KeyCache } from '../keys/cached.ts';
import type { KeyEvents, KeySource } from '../keys/source.ts';
import { type Readiness, readiness } from '../ops/health.ts';
import type { KnownNames } from '../ops/labels.ts';
import { OutageLog } from '../ops/outage-log.ts';
import { createForwarder } from '../proxy/forward.ts';
import { Rotation, type RotationPorts } from '../proxy/rotation.ts';
import type { UnderWay } from '../proxy/under-way.ts';
import { type Secret, sameSecret } from '../secret.ts';
import type { TlsUser } from '../tls/files.ts';
import type { TlsMaterial } from '../tls/material.ts';
import { type Certificates, materialOf } from './certificates.ts';
import { openSource } from './key-source.ts';

/** What stays the same when the configuration is read again. */
export interface RuntimePorts extends Omit<AppPorts, 'rotation' | 'forwarders'> {
  readonly underWay: UnderWay;
}

/** One configuration, running. */
export interface Runtime {
  readonly handle: RequestListener;
  readonly keys: KeyStock;
  readiness(): Readiness;
  /** Other certificates for connections to Vault or to a gateway. */
  useTls(user: TlsUser, material: TlsMaterial): void;
  /**
   * Closes idle connections to the gateways and, unless the next runtime goes on with them, the key source;
   * exchanges under way go on.
   */
  stop(next?: Runtime): void;
}

/** The cached keys of one configuration, where they come from, and which of them the gateway takes. */
interface KeyStock {
  readonly config: KeysConfig;
  readonly source: KeySource;
  readonly cache: KeyCache;
  readonly rotation: Rotation;
}

/**
 * Starts everything of a configuration that does not listen.
 *
 * @param previous the runtime that this one replaces: its cached keys are taken over where the configuration
 * of the keys is the same, so that reading the configuration again during an outage or a rotation loses nothing
 */
export function startRuntime(
  config: Config,
  certificates: Certificates,
  ports: RuntimePorts,
  previous?: Runtime,
): Runtime {
  const forwarders = new Map(
    Object.entries(config.environments).map(([name, settings]) => {
      const { ca } = materialOf(certificates, { role: 'gateway', environment: name });
      return [name, createForwarder(settings, ca, ports.underWay)];
    }),
  );
  const keep = previous !== undefined && sameConfig(previous.keys.config, config.keys);
  const tls = materialOf(certificates, { role: 'vault' });
  const keys = keep ? previous.keys : openKeys(config.keys, tls, ports);
  if (keep) keys.source.useTls?.(tls);
  return {
    handle: createApp(config, { ...ports, rotation: keys.rotation, forwarders }),
    keys,
    readiness: () =>
      readiness({
        draining: ports.admission.draining,
        keySourceReady: keys.source.ready(),
        keysCached: keys.cache.holds(),
      }),
    useTls({ role, environment = '' }, material) {
      if (role === 'vault') keys.source.useTls?.(material);
      const settings = config.environments[environment];
      if (role !== 'gateway' || settings === undefined) return;
      forwarders.get(environment)?.retire();
      forwarders.set(environment, createForwarder(settings, material.ca, ports.underWay));
    },
    stop: (next) => {
      if (next?.keys !== keys) {
        keys.cache.stop();
        keys.source.stop();
      }
      for (const forwarder of forwarders.values()) forwarder.retire();
    },
  };
}

/** A comparison by fields cannot see into the secret that a Vault token is. */
function sameConfig(a: KeysConfig, b: KeysConfig): boolean {
  const [token, other] = [tokenOf(a), tokenOf(b)];
  return isDeepStrictEqual(a, b) && (token === undefined || other === undefined || sameSecret(token, other));
}

function tokenOf(keys: KeysConfig): Secret | undefined {
  return keys.source === 'vault' && keys.vault.auth.method === 'token' ? keys.vault.auth.token : undefined;
}

function openKeys(config: KeysConfig, tls: TlsMaterial, ports: RuntimePorts): KeyStock {
  const events = withLog(ports, config.source);
  const source = openSource(config, { ...ports, events, tls });
  const { clock, monotonic, random, meter } = ports;
  const cachePorts = { monotonic, random, events, sourceName: config.source };
  const cache = new KeyCache(source, config.cache, cachePorts);
  const told: RotationPorts['meter'] = { ...events, fellBack: (...fallback) => meter.fellBack(...fallback) };
  const rotation = new Rotation({ keys: cache, meter: told, clock, monotonic, overlap: config.overlap });
  source.start();
  return { config, source, cache, rotation };
}

/** The names of a configuration that may become label values. */
export function namesOf(config: Config): KnownNames {
  const environments = Object.entries(config.environments).map(([name, { maxInFlight }]) => {
    const operations = operationsOf(config, name).map((operation) => operation.name);
    return [name, { operations, maxInFlight }] as const;
  });
  return { environments: Object.fromEntries(environments), callers: config.callers.map(({ name }) => name) };
}

/** Key trouble is counted and told: a person has to act on it. */
function withLog({ meter, log, monotonic }: RuntimePorts, source: string): KeyEvents {
  const outage = new OutageLog({ log, monotonic, source });
  return {
    keyTaken: (environment, result) => meter.keyTaken(environment, result),
    keyFetched: (source, seconds) => meter.keyFetched(source, seconds),
    ringChanged: (address, ring) => {
      meter.ringChanged(address, ring);
      const versions = ring?.map(({ kind, version }) => `${kind} ${version}`).join(', ') ?? 'gone';
      log.note('info', 'keys changed', { ...address, versions });
      for (const entry of ring ?? []) {
        if ('problem' in entry)
          log.note('error', entry.problem, { ...address, kind: entry.kind, version: entry.version });
      }
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
    sourceTokenExpires: (at) => meter.sourceTokenExpires(at),
    keyProblem: (problem, about) => {
      meter.keyProblem(problem, about);
      log.note('error', problem, { ...about });
    },
  };
}
