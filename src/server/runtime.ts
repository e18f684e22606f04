import type { RequestListener } from 'node:http';
import type { Config } from '../config/schema.ts';
import { resolveOperations } from '../gateway/operations.ts';
import type { LabelDomain } from '../observability/labels.ts';
import type { LogState } from '../observability/log-destination.ts';
import { computeReadiness, type Readiness } from '../observability/readiness.ts';
import { createUpstreamClient } from '../proxy/outbound/upstream-client.ts';
import type { TlsUser } from '../tls/files.ts';
import type { TlsMaterial } from '../tls/material.ts';
import { type AppOptions, createApp } from './app.ts';
import { type Certificates, materialOf } from './certificates.ts';
import { createKeyServices, type KeyServices } from './key-services.ts';

/** What stays the same when the configuration is read again. */
export interface RuntimeOptions extends Omit<AppOptions, 'keySelector' | 'upstreams'> {
  readonly logState: () => LogState;
}

/** One configuration, running. */
export interface Runtime {
  readonly handle: RequestListener;
  readonly keys: KeyServices;
  readiness(draining: boolean): Readiness;
  /** Other certificates for connections to Vault or to a gateway. */
  useTls(user: TlsUser, material: TlsMaterial): void;
  /**
   * Closes idle connections to the gateways and, unless the next runtime goes on with them, the key source;
   * exchanges under way go on.
   */
  stop(next?: Runtime): Promise<void>;
}

/**
 * Starts everything of a configuration that does not listen.
 *
 * @param previous the runtime that this one replaces: its cached keys are taken over where they come from the same
 * place, so that reading the configuration again during an outage or a rotation loses nothing
 */
export function startRuntime(
  config: Config,
  certificates: Certificates,
  ports: RuntimeOptions,
  previous?: Runtime,
): Runtime {
  const forwarders = new Map(
    Object.entries(config.environments).map(([name, settings]) => {
      const { ca } = materialOf(certificates, { role: 'gateway', environment: name });
      return [name, createUpstreamClient(settings, ca, ports.inflight)];
    }),
  );
  const tls = materialOf(certificates, { role: 'vault' });
  const keys = createKeyServices(config.keys, tls, ports, previous?.keys);
  return {
    handle: createApp(config, { ...ports, keySelector: keys.rotation, upstreams: forwarders }),
    keys,
    readiness: (draining) =>
      computeReadiness({
        draining,
        keySourceReady: keys.source.ready(),
        keysCached: keys.cache.hasUsableEntries(),
        ...ports.logState(),
      }),
    useTls({ role, environment = '' }, material) {
      if (role === 'vault') keys.source.useTls?.(material);
      const settings = config.environments[environment];
      if (role !== 'gateway' || settings === undefined) return;
      forwarders.get(environment)?.drain();
      forwarders.set(environment, createUpstreamClient(settings, material.ca, ports.inflight));
    },
    stop: async (next) => {
      for (const forwarder of forwarders.values()) forwarder.drain();
      if (next?.keys.cache !== keys.cache) keys.cache.stop();
      if (next !== undefined && next.keys.inUse !== keys.inUse) keys.cache.retire();
      if (next?.keys.source !== keys.source) await keys.source.stop();
    },
  };
}

/** The names of a configuration that may become label values. */
export function labelDomainOf(config: Config): LabelDomain {
  const environments = Object.entries(config.environments).map(([name, { maxInFlight }]) => {
    const operations = resolveOperations(config, name);
    const payments = operations.filter(({ readOnly }) => !readOnly);
    const namesIn = (list: typeof operations): string[] => list.map((operation) => operation.name);
    return [name, { operations: namesIn(operations), payments: namesIn(payments), maxInFlight }] as const;
  });
  return { environments: Object.fromEntries(environments), callers: config.callers.map(({ name }) => name) };
}

/** The logins that appear literally in a configuration, which the log and the metrics may contain. */
export function loginsIn(config: Config): string[] {
  const mapped = Object.values(config.environments).flatMap(({ endpoints }) => Object.values(endpoints));
  const granted = config.callers.flatMap(({ allow }) => allow.flatMap(({ logins }) => logins));
  return [...mapped, ...granted.filter((pattern) => !pattern.endsWith('*'))];
}
