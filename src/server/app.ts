import express, { type Express } from 'express';
import helmet, { type HelmetOptions } from 'helmet';
import { createAuthenticator } from '../auth/authenticate.ts';
import type { Config } from '../config/schema.ts';
import { createRouter } from '../gateway/router.ts';
import type { KeySelector } from '../keys/key-selector.ts';
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

/** Everything that reaches outside of the process, or is not the same in two runs. */
export interface AppOptions {
  /** Gives the keys, and remembers which the gateway took. */
  readonly keySelector: KeySelector;
  /** One per environment. */
  readonly upstreams: ReadonlyMap<string, UpstreamClient>;
  readonly limiter: ConcurrencyLimiter;
  readonly memory: MemoryBudget;
  readonly inflight: InflightRequests;
  readonly metrics: MetricsObserver;
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  /** 128 random bits as text. */
  readonly nonce: () => string;
  /** 0 to 1. */
  readonly random: () => number;
  readonly newRequestId: () => string;
  /** Takes out of a text the logins that may not be written. */
  readonly redact: (text: string) => string;
  readonly userAgent: string;
}

/** An answer that a browser opens all the same may run nothing; what only concerns pages is left out. */
const forPrograms: HelmetOptions = {
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

/** Puts the proxy together. Opens nothing: no port, no file, no connection. */
export function createApp(config: Config, ports: AppOptions): Express {
  const signer = new SigningPool(config.signing, ports.metrics, ports.monotonic);
  const { maxBodyBytes, maxParameters, timeouts } = config.proxy;
  const handle = createHandler({
    ...ports,
    authenticate: createAuthenticator(config.callers),
    resolve: createRouter(config),
    readForm: createFormReader({ maxBodyBytes, maxParameters, timeout: timeouts.body }),
    responseReadTimeout: timeouts.body,
    forwarder: new Forwarder({
      ...ports,
      signer,
      ...(config.keys.rotation.canary ? { canaries: new Canaries(config, ports) } : {}),
    }),
  });
  return express().disable('x-powered-by').disable('etag').use(helmet(forPrograms)).use(handle);
}
