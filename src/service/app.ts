import { IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import express, { type Express } from 'express';
import helmet, { type HelmetOptions } from 'helmet';
import { createAuthenticator } from '../auth/authenticate.ts';
import type { Routes } from '../gateway/router.ts';
import type { LoginRef } from '../keys/login-ref.ts';
import { createHandler } from '../proxy/handler.ts';
import { createFormReader } from '../proxy/inbound/read-form.ts';
import type { InflightRequests } from '../proxy/inflight-requests.ts';
import { Forwarder } from '../proxy/outbound/forwarder.ts';
import type { UpstreamClient } from '../proxy/outbound/upstream-client.ts';
import { SigningPool } from '../proxy/signing-pool.ts';
import type { JwtIssuers } from './jwt-issuers.ts';
import type { KeyServices } from './key-services.ts';
import { loginsIn, type Shared } from './shared.ts';

/** What the requests of one configuration need, and no others. */
interface AppParts {
  readonly keys: Pick<KeyServices, 'keySelector' | 'signRemotely' | 'table'>;
  readonly verifyJwt: JwtIssuers['verify'];
  /** One per environment. */
  readonly upstreams: ReadonlyMap<string, UpstreamClient>;
  readonly inflight: InflightRequests;
}

/** Builds what handles the requests of the proxy port. Opens no port, file or connection. */
export function createApp({ config, operations, resolve }: Routes, parts: AppParts, shared: Shared): Express {
  const { keys, verifyJwt, upstreams, inflight } = parts;
  const { clock, monotonic, random, log, metrics, decisions, redactor } = shared;
  const audit = shared.audit?.log;
  const { callers, signing } = config;
  const { allowedHosts, maxBodyBytes, maxParameters, timeouts } = config.proxy;
  const { concurrency = shared.signingConcurrency, maxQueue } = signing;
  const transit = config.keys.source === 'vault' ? config.keys.vault.transit : undefined;
  const remote = transit && keys.signRemotely && { ...transit, sign: keys.signRemotely };
  const configuredLogins = new Set(loginsIn(config));
  const handle = createHandler({
    clock,
    monotonic,
    log,
    metrics,
    decisions,
    audit,
    redactor,
    inflight,
    limiter: shared.limiter,
    memory: shared.memory,
    tracing: shared.tracing,
    newRequestId: shared.newRequestId,
    authenticate: createAuthenticator({
      callers,
      verifyJwt,
      acceptUnknownTokens: shared.acceptUnknownTokens,
    }),
    operations,
    resolve,
    isKnownLogin: (ref: LoginRef) => configuredLogins.has(ref.login) || keys.table.peek(ref) !== undefined,
    allowedHosts,
    securityHeaders: securityHeaders(),
    readForm: createFormReader({ maxBodyBytes, maxParameters, timeout: timeouts.body }),
    responseReadTimeout: timeouts.body,
    keySelector: keys.keySelector,
    once: shared.once?.guard,
    forwarder: new Forwarder({
      clock,
      monotonic,
      random,
      metrics,
      decisions,
      audit,
      upstreams,
      keySelector: keys.keySelector,
      signer: new SigningPool({ concurrency, maxQueue }, metrics, monotonic, remote),
      nonce: shared.nonce,
      userAgent: shared.userAgent,
    }),
  });
  return express().disable('x-powered-by').disable('etag').use(handle);
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

/** What helmet sets is the same for each response, so it runs once. */
function securityHeaders(): OutgoingHttpHeaders {
  const request = new IncomingMessage(new Socket());
  const response = new ServerResponse(request);
  helmet(apiHeaders)(request, response, () => {});
  return { ...response.getHeaders() };
}
