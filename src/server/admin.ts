import type { Server } from 'node:http';
import { presentsToken } from '../auth/bearer-token.ts';
import type { Config } from '../config/schema.ts';
import { isLoopback } from '../config/url.ts';
import { type AdminAppOptions, createAdminApp, createAdminServer } from '../observability/admin-app.ts';
import type { Logger } from '../observability/logger.ts';
import type { Prometheus } from '../observability/prometheus.ts';
import { ConnectionTracker } from '../proxy/inbound/connection-tracker.ts';
import { createStatus, type StatusSources } from './status.ts';

export interface AdminOptions extends StatusSources {
  readonly prometheus: Pick<Prometheus, 'page'>;
  readonly log: Pick<Logger, 'message'>;
  /** Least milliseconds between two renderings of a page; default: {@link renderInterval}. */
  readonly renderInterval?: number | undefined;
}

/** Milliseconds between two lines about wrong tokens, so that guesses do not fill the log. */
const repeatAfter = 60_000;
/** Milliseconds: with a thousand logins, each rendering of the metrics takes tens of them. */
const renderInterval = 1_000;

/** The server of the admin port. Does not listen yet. @param started what the process was started with */
export function createAdmin(started: Config['admin'], options: AdminOptions): Server {
  const { prometheus, readiness, runtime } = options;
  const wrongToken = createWrongTokenLog(options);
  const server = createAdminServer(started.maxConnections);
  const app = createAdminApp({
    page: (openMetrics) => prometheus.page(openMetrics),
    monotonic: options.monotonic,
    interval: options.renderInterval ?? renderInterval,
    readiness,
    status: createStatus(options),
    statusAccess: (authorization) => {
      const access = statusAccess(started, runtime().config.admin, authorization);
      if (access === 'denied' && authorization !== undefined) wrongToken();
      return access;
    },
    allowedHosts: started.allowedHosts,
  });
  // One request per connection at a time, as on the proxy port.
  new ConnectionTracker().serve(server, app);
  return server;
}

/** A token is required wherever one is configured; beyond loopback the status is off without one. */
function statusAccess(
  { host }: Pick<Config['admin'], 'host'>,
  { tokenSha256 }: Pick<Config['admin'], 'tokenSha256'>,
  authorization: string | undefined,
): ReturnType<AdminAppOptions['statusAccess']> {
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
