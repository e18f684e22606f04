import { IncomingMessage, type OutgoingHttpHeaders, type RequestListener, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import express, { type Express } from 'express';
import helmet, { type HelmetOptions } from 'helmet';
import { type AuthenticatorOptions, createAuthenticator } from '../auth/authenticate.ts';
import type { Config } from '../config/schema.ts';
import type { Routes } from '../gateway/router.ts';
import type { SignRemotely } from '../keys/key-source.ts';
import type { LoginRef } from '../keys/login-ref.ts';
import type { TlsUser } from '../net/tls-files.ts';
import type { TlsMaterial } from '../net/tls-material.ts';
import { computeReadiness, type Readiness } from '../observability/readiness.ts';
import { createHandler, type HandlerOptions } from '../proxy/handler.ts';
import { createFormReader } from '../proxy/inbound/read-form.ts';
import { Forwarder, type ForwarderOptions } from '../proxy/outbound/forwarder.ts';
import { createUpstreamClient, type UpstreamClient } from '../proxy/outbound/upstream-client.ts';
import { SigningPool } from '../proxy/signing-pool.ts';
import { type Certificates, materialOf } from './certificates.ts';
import { type JwtIssuers, startJwtIssuers } from './jwt-issuers.ts';
import { createKeyServices, type KeyServices } from './key-services.ts';
import { loginsIn, type Shared } from './shared.ts';

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
  shared: Shared,
  previous?: Runtime,
): Runtime {
  const { config } = routes;
  const upstreams = new Map<string, UpstreamClient>();
  const connect = (environment: string, material: TlsMaterial): void => {
    const settings = config.environments[environment];
    const observer = shared.tlsPeers.servers({ role: 'gateway', environment });
    if (settings !== undefined)
      upstreams.set(environment, createUpstreamClient(settings, material, shared.inflight, observer));
  };
  for (const environment of Object.keys(config.environments))
    connect(environment, materialOf(certificates, { role: 'gateway', environment }));
  const tls = materialOf(certificates, { role: 'vault' });
  const tlsObserver = shared.tlsPeers.servers({ role: 'vault' });
  const keys = createKeyServices(config.keys, tls, { ...shared, tlsObserver }, previous?.keys);
  const jwtIssuers = startJwtIssuers(config, shared, previous?.jwtIssuers);
  const configuredLogins = new Set(loginsIn(config));
  const isKnownLogin = (ref: LoginRef): boolean =>
    configuredLogins.has(ref.login) || keys.table.peek(ref) !== undefined;
  const { keySelector, signRemotely } = keys;
  const { verify: verifyJwt } = jwtIssuers;
  return {
    config,
    handle: createApp(routes, { ...shared, isKnownLogin, keySelector, signRemotely, upstreams, verifyJwt }),
    keys,
    jwtIssuers,
    readiness: (draining) =>
      computeReadiness({
        draining,
        keySourceReady: keys.source.ready(),
        auditUnavailable: shared.isAuditUnavailable(),
        keysCached: keys.table.hasKeys(),
        jwtKeysAvailable: jwtIssuers.available(),
        ...shared.logState(),
      }),
    useTls({ role, environment = '' }, material) {
      if (role === 'vault') {
        keys.source.useTls?.(material);
        keys.reader.probeNow();
      }
      if (role !== 'gateway') return;
      upstreams.get(environment)?.drain();
      connect(environment, material);
    },
    stop: async (next) => {
      for (const upstream of upstreams.values()) upstream.drain();
      jwtIssuers.stop(next?.jwtIssuers);
      await keys.stop(next?.keys);
    },
  };
}

/** What handles the requests of one configuration, but what it makes of that configuration itself. */
type AppOptions = Omit<
  HandlerOptions,
  | 'allowedHosts'
  | 'authenticate'
  | 'forwarder'
  | 'readForm'
  | 'resolve'
  | 'responseReadTimeout'
  | 'securityHeaders'
> &
  Omit<ForwarderOptions, 'signer'> &
  Pick<AuthenticatorOptions, 'acceptUnknownTokens' | 'verifyJwt'> & {
    /** Maximum concurrent RSA signatures where the configuration has no limit. */
    readonly signingConcurrency: number;
    /** Absent if the key source has no keys that do not leave it. */
    readonly signRemotely?: SignRemotely | undefined;
  };

/** For API responses: a browser that opens one may run nothing. Headers that only concern web pages are off. */
const apiHeaders: HelmetOptions = {
  contentSecurityPolicy: {
    directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
    useDefaults: false,
  },
  crossOriginOpenerPolicy: false,
  originAgentCluster: false,
  xDnsPrefetchControl: false,
  xDownloadOptions: false,
  xPermittedCrossDomainPolicies: false,
  xXssProtection: false,
};

/** Builds the proxy. Opens no port, file or connection. */
export function createApp(routes: Routes, options: AppOptions): Express {
  const { config, resolve } = routes;
  const { concurrency = options.signingConcurrency, maxQueue } = config.signing;
  const { keys } = config;
  const limits = keys.source === 'vault' ? keys.vault.transit : undefined;
  const remote = limits && options.signRemotely && { ...limits, sign: options.signRemotely };
  const signer = new SigningPool({ concurrency, maxQueue }, options.metrics, options.monotonic, remote);
  const { allowedHosts, maxBodyBytes, maxParameters, timeouts } = config.proxy;
  const handle = createHandler({
    ...options,
    authenticate: createAuthenticator({ ...config, ...options }),
    resolve,
    allowedHosts,
    securityHeaders: securityHeaders(),
    readForm: createFormReader({ maxBodyBytes, maxParameters, timeout: timeouts.body }),
    responseReadTimeout: timeouts.body,
    forwarder: new Forwarder({ ...options, signer }),
  });
  return express().disable('x-powered-by').disable('etag').use(handle);
}

/** What helmet sets is the same for each response, so it runs once. */
function securityHeaders(): OutgoingHttpHeaders {
  const request = new IncomingMessage(new Socket());
  const response = new ServerResponse(request);
  helmet(apiHeaders)(request, response, () => {});
  return { ...response.getHeaders() };
}
