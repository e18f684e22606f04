import type { RequestListener } from 'node:http';
import { presentsToken } from '../auth/bearer-token.ts';
import type { Config } from '../config/schema.ts';
import { isLoopback } from '../config/url.ts';
import { createAdminApp } from '../observability/admin-app.ts';
import type { Readiness } from '../observability/readiness.ts';
import type { ServerLimits } from '../proxy/inbound/server.ts';
import type { CertificateFiles } from './certificates.ts';
import type { JwtIssuers } from './jwt-issuers.ts';
import type { KeyServices } from './key-services.ts';
import type { Shared } from './shared.ts';
import { createStatus } from './status.ts';

/** Milliseconds between two lines about wrong tokens, so that guesses do not fill the log. */
const repeatAfter = 60_000;
/** Milliseconds: with a thousand logins, each rendering of the metrics takes tens of them. */
const renderInterval = 1_000;
/** A probe or a scrape sends a short head at once, and a scrape comes every 15 to 60 seconds. */
export const adminLimits: ServerLimits = {
  headersTimeout: 5_000,
  requestTimeout: 5_000,
  keepAliveTimeout: 65_000,
  timeout: 30_000,
  maxHeaderSize: 8_192,
};

interface AdminParts {
  readonly config: Config;
  readonly keys: KeyServices;
  readonly jwtIssuers: JwtIssuers;
  readonly certificates: CertificateFiles;
  readonly readiness: () => Readiness;
}

/** What handles the requests of the admin port. */
export function createAdmin(parts: AdminParts, shared: Shared): RequestListener {
  const { config, keys, jwtIssuers, certificates, readiness } = parts;
  const { clock, monotonic, startedAt, recorder, limiter, redactor, prometheus, logLinesDropped } = shared;
  const { admin } = config;
  const wrongToken = createWrongTokenLog(shared);
  const readings = () => ({
    inFlight: (environment: string) => limiter.inFlight(environment),
    certificates: certificates.inUse(),
    jwtKeysFetchedAt: new Map(jwtIssuers.list.map(({ name, fetchedAt }) => [name, fetchedAt])),
    logLinesDropped: logLinesDropped(),
  });
  return createAdminApp({
    page: (openMetrics) => prometheus.page(openMetrics, readings()),
    monotonic,
    interval: shared.renderInterval ?? renderInterval,
    readiness,
    status: createStatus({
      clock,
      monotonic,
      startedAt,
      recorder,
      limiter,
      redactor,
      readiness,
      certificates,
      config,
      keys,
      jwtIssuers,
    }),
    statusAccess: (authorization) => {
      const access = statusAccess(admin, authorization);
      if (access === 'denied' && authorization !== undefined) wrongToken();
      return access;
    },
    certificateRequired: admin.tls?.clientCaFile !== undefined,
    allowedHosts: admin.allowedHosts,
  });
}

/** A token is required wherever one is configured; beyond loopback the status is off without one. */
function statusAccess({ host, tokenSha256 }: Config['admin'], authorization?: string) {
  if (tokenSha256 === undefined) return isLoopback(host) ? 'granted' : 'off';
  return presentsToken(authorization, tokenSha256) ? 'granted' : 'denied';
}

/** `count` of a line: wrong tokens since the line before it. */
function createWrongTokenLog({ log, monotonic }: Pick<Shared, 'log' | 'monotonic'>): () => void {
  let [count, loggedAt] = [0, Number.NEGATIVE_INFINITY];
  return () => {
    count += 1;
    const now = monotonic();
    if (now - loggedAt < repeatAfter) return;
    log.message('warn', 'status requests with a wrong token', { count });
    [count, loggedAt] = [0, now];
  };
}
