import express, { type Express } from 'express';
import helmet, { type HelmetOptions } from 'helmet';
import { type AuthenticatorOptions, createAuthenticator } from '../auth/authenticate.ts';
import type { Routes } from '../gateway/router.ts';
import type { SignRemotely } from '../keys/key-source.ts';
import { createHandler, type HandlerOptions } from '../proxy/handler.ts';
import { createFormReader } from '../proxy/inbound/read-form.ts';
import { Canaries } from '../proxy/outbound/canary.ts';
import { Forwarder, type ForwarderOptions } from '../proxy/outbound/forwarder.ts';
import { SigningPool } from '../proxy/signing-pool.ts';

/** Everything that does I/O or differs between two runs. */
export interface AppOptions
  extends Omit<
      HandlerOptions,
      'allowedHosts' | 'authenticate' | 'forwarder' | 'readForm' | 'resolve' | 'responseReadTimeout'
    >,
    Omit<ForwarderOptions, 'canaries' | 'signer'> {
  /** Maximum concurrent RSA signatures where the configuration has no limit. */
  readonly signingConcurrency: number;
  /** For the demo only: an unknown bearer token is ignored. No configuration can set this. */
  readonly acceptUnknownTokens?: boolean;
  /** Absent if the key source has no keys that do not leave it. */
  readonly signRemotely?: SignRemotely | undefined;
  readonly verifyJwt: AuthenticatorOptions['verifyJwt'];
}

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
    readForm: createFormReader({ maxBodyBytes, maxParameters, timeout: timeouts.body }),
    responseReadTimeout: timeouts.body,
    forwarder: new Forwarder({
      ...options,
      signer,
      ...(keys.rotation.canary ? { canaries: new Canaries(routes, options) } : {}),
    }),
  });
  return express().disable('x-powered-by').disable('etag').use(helmet(apiHeaders)).use(handle);
}
