import { randomUUID } from 'node:crypto';
import { presentsToken } from '../auth/bearer-token.ts';
import type { Config } from '../config/schema.ts';
import { isLoopback } from '../config/url.ts';
import { Port } from '../net/port.ts';
import { createAdminApp } from '../observability/admin-app.ts';
import type { Logger } from '../observability/logger.ts';
import type { Prometheus, Readings } from '../observability/prometheus.ts';
import type { TlsPeers } from '../observability/tls-peers.ts';
import { Listener, type ListenerLimits } from '../proxy/inbound/listener.ts';
import type { ListenerTls } from '../proxy/inbound/listener-tls.ts';
import { createStatus, type StatusSources } from './status.ts';

interface AdminOptions extends StatusSources {
  /** Since the start. */
  readonly logLinesDropped: () => number;
  readonly prometheus: Pick<Prometheus, 'page'>;
  readonly log: Pick<Logger, 'message'>;
  readonly tlsPeers: Pick<TlsPeers, 'clients'>;
  /** Least milliseconds between two renderings of a page; default: {@link renderInterval}. */
  readonly renderInterval?: number | undefined;
}

/** Milliseconds between two lines about wrong tokens, so that guesses do not fill the log. */
const repeatAfter = 60_000;
/** Milliseconds: with a thousand logins, each rendering of the metrics takes tens of them. */
const renderInterval = 1_000;
/** A probe or a scrape sends a short head at once, and a scrape comes every 15 to 60 seconds. */
const limits: ListenerLimits = {
  headersTimeout: 5_000,
  requestTimeout: 5_000,
  keepAliveTimeout: 65_000,
  timeout: 30_000,
  maxHeaderSize: 8_192,
};

export type Admin = ReturnType<typeof createAdmin>;

/** The admin port, not yet listening. @param started what the process was started with */
export function createAdmin(started: Config['admin'], tls: ListenerTls | undefined, options: AdminOptions) {
  const { prometheus, readiness, runtime } = options;
  const wrongToken = createWrongTokenLog(options);
  const app = createAdminApp({
    page: (openMetrics) => prometheus.page(openMetrics, readingsOf(options)),
    monotonic: options.monotonic,
    interval: options.renderInterval ?? renderInterval,
    readiness,
    status: createStatus(options),
    statusAccess: (authorization) => {
      const access = statusAccess(started, runtime().config.admin, authorization);
      if (access === 'denied' && authorization !== undefined) wrongToken();
      return access;
    },
    certificateRequired: () => listener.tls?.clientCa !== undefined,
    allowedHosts: started.allowedHosts,
  });
  const listener = new Listener(limits, {
    handle: app,
    tls,
    tlsObserver: options.tlsPeers.clients('admin'),
    monotonic: options.monotonic,
    newRequestId: randomUUID,
    requestRejected: () => {},
  });
  // Whoever can connect can take all connections. Then they all end, so that the next probe finds room.
  const port = new Port(() => port.destroyAll());
  port.maxConnections = started.maxConnections;
  listener.serve(port);
  return { port, listener };
}

function readingsOf({ limiter, certificates, runtime, logLinesDropped }: AdminOptions): Readings {
  const { jwtIssuers } = runtime();
  return {
    inFlight: (environment) => limiter.inFlight(environment),
    certificates: certificates.inUse(),
    jwtKeysFetchedAt: new Map(jwtIssuers.list.map(({ name, source }) => [name, source.fetchedAt ?? 0])),
    logLinesDropped: logLinesDropped(),
  };
}

/** A token is required wherever one is configured; beyond loopback the status is off without one. */
function statusAccess({ host }: Config['admin'], { tokenSha256 }: Config['admin'], authorization?: string) {
  if (tokenSha256 === undefined) return isLoopback(host) ? 'granted' : 'off';
  return presentsToken(authorization, tokenSha256) ? 'granted' : 'denied';
}

/** `count` of a line: wrong tokens since the line before it. */
function createWrongTokenLog({ log, monotonic }: Pick<AdminOptions, 'log' | 'monotonic'>): () => void {
  let [count, loggedAt] = [0, Number.NEGATIVE_INFINITY];
  return () => {
    count += 1;
    const now = monotonic();
    if (now - loggedAt < repeatAfter) return;
    log.message('warn', 'status requests with a wrong token', { count });
    [count, loggedAt] = [0, now];
  };
}
