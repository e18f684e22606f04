import type { RequestListener } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { createJwtVerifier } from '../auth/jwt/verify.ts';
import { pathText } from '../config/problem.ts';
import { checkListener } from '../config/rules/callers.ts';
import type { Config, EnvironmentConfig } from '../config/schema.ts';
import type { Routes } from '../gateway/router.ts';
import type { KeySource, SignRemotely } from '../keys/key-source.ts';
import type { LabelDomain } from '../observability/labels.ts';
import type { LogState } from '../observability/log-destination.ts';
import { computeReadiness, type Readiness } from '../observability/readiness.ts';
import type { TlsPeers } from '../observability/tls-peers.ts';
import type { Tracing } from '../observability/tracing/tracing.ts';
import { createUpstreamClient, type UpstreamClient } from '../proxy/outbound/upstream-client.ts';
import type { TlsUser } from '../tls/files.ts';
import type { TlsMaterial } from '../tls/material.ts';
import { type AppOptions, createApp } from './app.ts';
import { type Certificates, materialOf } from './certificates.ts';
import { type JwtIssuers, jwtObserver, startJwtIssuers } from './jwt-issuers.ts';
import { createKeyServices, type KeyServices } from './key-services.ts';

/** The fields that are read only at the start: listening sockets and the log. */
export const startOnly: Readonly<Record<string, (config: Config) => unknown>> = {
  'proxy.host': ({ proxy }) => proxy.host,
  'proxy.port': ({ proxy }) => proxy.port,
  // Only whether TLS is on; changed files take effect on reload.
  'proxy.tls': ({ proxy }) => proxy.tls === undefined,
  // Also the timeout of TLS handshakes, which Node reads when a server is created.
  'proxy.timeouts.headers': ({ proxy }) => proxy.timeouts.headers,
  'admin.host': ({ admin }) => admin.host,
  'admin.port': ({ admin }) => admin.port,
  'admin.tls': ({ admin }) => admin.tls === undefined,
  'admin.maxConnections': ({ admin }) => admin.maxConnections,
  'admin.allowedHosts': ({ admin }) => admin.allowedHosts,
  'audit.file': ({ audit }) => audit?.file,
  // The key itself is read again with each reload.
  'audit.keyFile': ({ audit }) => audit?.keyFile,
  'audit.required': ({ audit }) => audit?.required,
  'audit.sync': ({ audit }) => audit?.sync,
  'log.level': ({ log }) => log.level,
};

/** What survives a reload of the configuration. */
export interface RuntimeOptions
  extends Omit<AppOptions, 'isKnownLogin' | 'keySelector' | 'signRemotely' | 'upstreams' | 'verifyJwt'> {
  readonly logState: () => LogState;
  /** Audit records are required and cannot be written. */
  readonly isAuditUnavailable: () => boolean;
  /** TLS with Vault failed: its certificate may have a new CA. */
  readonly tlsFailed: () => void;
  readonly tlsPeers: TlsPeers;
  readonly tracing: Tracing;
}

/** Everything of one configuration that runs, except the listeners. */
export interface Runtime {
  readonly config: Config;
  readonly handle: RequestListener;
  readonly keys: KeyServices;
  readonly jwtIssuers: JwtIssuers;
  readiness(draining: boolean): Readiness;
  /** Replaces the certificates for connections to Vault or to a gateway. */
  useTls(user: TlsUser, material: TlsMaterial): void;
  /**
   * Closes idle connections to the gateways and, unless the next runtime uses it, the key source. In-flight requests
   * continue.
   */
  stop(next?: Runtime): Promise<void>;
}

/**
 * Starts everything of a configuration except the listeners.
 *
 * @param previous the runtime that this one replaces; its cached keys are kept if they come from the same place, so
 * that a reload during an outage or a rotation loses nothing
 */
export function startRuntime(
  routes: Routes,
  certificates: Certificates,
  options: RuntimeOptions,
  previous?: Runtime,
): Runtime {
  const { config } = routes;
  const upstreams = new Map(
    Object.entries(config.environments).map(([name, settings]) => {
      const tls = materialOf(certificates, { role: 'gateway', environment: name });
      return [name, createUpstream(name, settings, tls, options)];
    }),
  );
  const tls = materialOf(certificates, { role: 'vault' });
  const tlsObserver = options.tlsPeers.servers({ role: 'vault' });
  const keys = createKeyServices(config.keys, tls, { ...options, tlsObserver }, previous?.keys);
  const jwtIssuers = startJwtIssuers(config.jwtIssuers, options, previous?.jwtIssuers);
  const configuredLogins = new Set(loginsIn(config));
  const isKnownLogin: AppOptions['isKnownLogin'] = (ref) =>
    configuredLogins.has(ref.login) || keys.cache.cached(ref) !== undefined;
  return {
    config,
    handle: createApp(routes, {
      ...options,
      isKnownLogin,
      keySelector: keys.keySelector,
      signRemotely: keys.source.sign && ((...args) => signIn(keys.inUse.source, ...args)),
      upstreams,
      verifyJwt: jwtVerifierOf(config, jwtIssuers, options),
    }),
    keys,
    jwtIssuers,
    readiness: (draining) =>
      computeReadiness({
        draining,
        keySourceReady: keys.source.ready(),
        auditUnavailable: options.isAuditUnavailable(),
        keysCached: keys.cache.hasUsableEntries(),
        jwtKeysAvailable: jwtIssuers.available(),
        ...options.logState(),
      }),
    useTls({ role, environment = '' }, material) {
      if (role === 'vault') keys.source.useTls?.(material);
      const settings = config.environments[environment];
      if (role !== 'gateway' || settings === undefined) return;
      upstreams.get(environment)?.drain();
      upstreams.set(environment, createUpstream(environment, settings, material, options));
    },
    stop: async (next) => {
      for (const upstream of upstreams.values()) upstream.drain();
      jwtIssuers.stop(next?.jwtIssuers);
      if (next?.keys.cache !== keys.cache) keys.cache.stop();
      if (next !== undefined && next.keys.inUse !== keys.inUse) keys.cache.retire();
      if (next?.keys.source === keys.source) return;
      keys.reports.end();
      await keys.source.stop();
    },
  };
}

/** A reload may have replaced the source since the request began. */
function signIn({ sign }: KeySource, ...args: Parameters<SignRemotely>): Promise<string> {
  if (sign === undefined) throw new TypeError('the key source does not sign');
  return sign(...args);
}

function createUpstream(
  environment: string,
  settings: EnvironmentConfig,
  tls: TlsMaterial,
  { inflight, tlsPeers }: RuntimeOptions,
): UpstreamClient {
  return createUpstreamClient(settings, tls, inflight, tlsPeers.servers({ role: 'gateway', environment }));
}

function jwtVerifierOf(
  { callers }: Config,
  { list: issuers }: JwtIssuers,
  options: RuntimeOptions,
): AppOptions['verifyJwt'] {
  if (issuers.length === 0) return undefined;
  return createJwtVerifier({ callers, issuers, observer: jwtObserver(options), clock: options.clock });
}

/** The names of a configuration that may become label values. */
export function labelDomainOf({ config, operations: table }: Routes): LabelDomain {
  const mounts = config.keys.source === 'vault' ? config.keys.vault.transit?.mounts : undefined;
  const environments = Object.entries(config.environments).map(([name, { maxInFlight, egressProxy }]) => {
    const operations = table.get(name) ?? [];
    const payments = operations.filter(({ readOnly }) => !readOnly);
    const namesIn = (list: typeof operations): string[] => list.map((operation) => operation.name);
    const names = { operations: namesIn(operations), payments: namesIn(payments) };
    const transit = mounts !== undefined && Object.hasOwn(mounts, name);
    return [name, { ...names, maxInFlight, egressProxy: egressProxy !== undefined, transit }] as const;
  });
  return {
    environments: Object.fromEntries(environments),
    callers: config.callers.map(({ name }) => name),
    issuers: Object.keys(config.jwtIssuers),
  };
}

/** The logins that the configuration contains literally. Log and metrics may show them. */
export function loginsIn(config: Config): string[] {
  const mapped = Object.values(config.environments).flatMap(({ endpoints }) => Object.values(endpoints));
  const granted = config.callers.flatMap(({ allow }) => allow.flatMap(({ logins }) => logins));
  return [...mapped, ...granted.filter((pattern) => !pattern.endsWith('*'))];
}

/** The fields that differ from those the process started with, and require a restart. */
export function fieldsForRestart(started: Config, next: Config): readonly string[] {
  return Object.entries(startOnly)
    .filter(([, read]) => !isDeepStrictEqual(read(started), read(next)))
    .map(([field]) => field);
}

/**
 * The listener keeps its address, and whether it has TLS, until a restart. So it must be fit for the credentials of the
 * next configuration too.
 *
 * @returns that configuration
 * @throws Error if the listener is not
 */
export function fitForListener(started: Config, next: Config): Config {
  const { host, tls } = started.proxy;
  const proxy = { ...next.proxy, host, tls: tls === undefined ? undefined : (next.proxy.tls ?? tls) };
  checkListener(next.callers, proxy, (path, message) => {
    throw new Error(`${pathText(path)} ${message}. Changes of proxy.host and proxy.tls need a restart.`);
  });
  return next;
}
