import express, { type Express } from 'express';
import helmet, { type HelmetOptions } from 'helmet';
import { createAuthenticator } from '../auth/authenticate.ts';
import type { Config } from '../config/schema.ts';
import { createRouter } from '../gateway/router.ts';
import type { KeySelector } from '../keys/key-selector.ts';
import type { LoginRef } from '../keys/key-source.ts';
import type { DecisionLog } from '../observability/decision-log.ts';
import type { Logger } from '../observability/logger.ts';
import type { MetricsObserver } from '../observability/metrics-observer.ts';
import type { ConcurrencyLimiter } from '../proxy/concurrency-limiter.ts';
import { createHandler } from '../proxy/handler.ts';
import { createFormReader } from '../proxy/inbound/read-form.ts';
import type { InflightRequests } from '../proxy/inflight-requests.ts';
import type { MemoryBudget } from '../proxy/memory-budget.ts';
import { Canaries } from '../proxy/outbound/canary.ts';
import { Forwarder } from '../proxy/outbound/forwarder.ts';
import type { UpstreamClient } from '../proxy/outbound/upstream-client.ts';
import { SigningPool } from '../proxy/signing-pool.ts';

/** Everything that does I/O or differs between two runs. */
export interface AppOptions {
  /** Whether a login is configured or has cached keys. */
  readonly isKnownLogin: (login: LoginRef) => boolean;
  /** Selects keys, and records which ones the gateway accepts. */
  readonly keySelector: KeySelector;
  /** One per environment. */
  readonly upstreams: ReadonlyMap<string, UpstreamClient>;
  readonly limiter: ConcurrencyLimiter;
  readonly memory: MemoryBudget;
  readonly inflight: InflightRequests;
  readonly metrics: MetricsObserver;
  readonly log: Logger;
  /** At log level `debug` only. */
  readonly decisions?: DecisionLog;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Monotonic milliseconds. */
  readonly monotonic: () => number;
  /** 128 random bits as a string. */
  readonly nonce: () => string;
  /** 0 to 1. */
  readonly random: () => number;
  readonly newRequestId: () => string;
  /** Redacts logins that may not be logged. */
  readonly redact: (text: string) => string;
  readonly userAgent: string;
  /** For the demo only: an unknown bearer token is ignored. No configuration can set this. */
  readonly acceptUnknownTokens?: boolean;
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
export function createApp(config: Config, options: AppOptions): Express {
  const signer = new SigningPool(config.signing, options.metrics, options.monotonic);
  const { maxBodyBytes, maxParameters, timeouts } = config.proxy;
  const handle = createHandler({
    ...options,
    authenticate: createAuthenticator(config.callers, options.acceptUnknownTokens),
    resolve: createRouter(config),
    readForm: createFormReader({ maxBodyBytes, maxParameters, timeout: timeouts.body }),
    responseReadTimeout: timeouts.body,
    forwarder: new Forwarder({
      ...options,
      signer,
      ...(config.keys.rotation.canary ? { canaries: new Canaries(config, options) } : {}),
    }),
  });
  return express().disable('x-powered-by').disable('etag').use(helmet(apiHeaders)).use(handle);
}
