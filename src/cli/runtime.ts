import { readFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { type AppPorts, createApp } from '../app.ts';
import type { Config, KeysConfig } from '../config/shape.ts';
import { operationsOf } from '../gateway/operations.ts';
import { KeyCache } from '../keys/cached.ts';
import type { KeyEvents, KeySource } from '../keys/source.ts';
import { type Readiness, readiness } from '../ops/health.ts';
import type { KnownNames } from '../ops/labels.ts';
import type { Log } from '../ops/log.ts';
import type { Meter } from '../ops/meter.ts';
import { createForwarder } from '../proxy/forward.ts';
import { Rotation, type RotationPorts } from '../proxy/rotation.ts';
import type { UnderWay } from '../proxy/under-way.ts';
import { type Secret, sameSecret } from '../secret.ts';
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
 * @throws Error for a file that cannot be read; nothing has been started then
 */
export function startRuntime(config: Config, ports: RuntimePorts, previous?: Runtime): Runtime {
  const forwarders = new Map(
    Object.entries(config.environments).map(([name, settings]) => {
      const ca = settings.caFile === undefined ? undefined : readFileSync(settings.caFile, 'utf8');
      return [name, createForwarder(settings, ca, ports.underWay)];
    }),
  );
  const keep = previous !== undefined && sameConfig(previous.keys.config, config.keys);
  const keys = keep ? previous.keys : openKeys(config.keys, ports);
  return {
    handle: createApp(config, { ...ports, rotation: keys.rotation, forwarders }),
    keys,
    readiness: () =>
      readiness({
        draining: ports.admission.draining,
        keySourceReady: keys.source.ready(),
        keysCached: keys.cache.holds(),
      }),
    stop: (next) => {
      if (next?.keys !== keys) keys.source.stop();
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

function openKeys(config: KeysConfig, ports: RuntimePorts): KeyStock {
  const events = withLog(ports.meter, ports.log);
  const source = openSource(config, { ...ports, events });
  const { clock, monotonic, random, meter } = ports;
  const cachePorts = { monotonic, random, events, sourceName: config.source };
  const cache = new KeyCache(source, config.cache, cachePorts);
  const told: RotationPorts['meter'] = { ...events, fellBack: (...fallback) => meter.fellBack(...fallback) };
  const wait = (milliseconds: number): Promise<void> => pause(milliseconds, undefined, { ref: false });
  const rotation = new Rotation({
    keys: cache,
    meter: told,
    clock,
    monotonic,
    wait,
    overlap: config.overlap,
  });
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
function withLog(meter: Meter, log: Log): KeyEvents {
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
    keySourceUp: (up) => meter.keySourceUp(up),
    sourceTokenExpires: (at) => meter.sourceTokenExpires(at),
    keyProblem: (problem, about) => {
      meter.keyProblem(problem, about);
      log.note('error', problem, { ...about });
    },
  };
}
