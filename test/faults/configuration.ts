import { readFileSync } from 'node:fs';
import { configFor } from '../support/config.ts';
import { noGateway } from '../support/service.ts';
import { root } from '../support/sources.ts';
import type { SiteName } from './fault-table.ts';

/** Milliseconds; short, so that the runs are. */
export const timeouts = { connect: 300, request: 1_500, headers: 2_000, body: 2_000 } as const;

/** Milliseconds for requests that are in flight when a process stops: time for the slowest of them. */
export function drainFor(requestTimeout: number): number {
  return timeouts.body + requestTimeout + 2_500;
}

export interface ConfigOptions {
  readonly port: number;
  readonly adminPort: number;
  readonly urls: ReadonlyMap<SiteName, string>;
  readonly caFile: string | undefined;
  /** Of the egress proxies, in turn for one environment after the other; none without them. */
  readonly egressUrls: readonly string[];
  /** Milliseconds for a whole upstream request. */
  readonly requestTimeout: number;
  /** Milliseconds of serving after SIGTERM; omitted if this version of Countersign has no such setting. */
  readonly shutdownDelay: number;
  /** Changes from one reload to the next. */
  readonly revision: number;
}

/** The configuration of one instance, as an object to be written as YAML. */
export function configuration(options: ConfigOptions): object {
  const { port, adminPort, urls, caFile, egressUrls, requestTimeout, shutdownDelay, revision } = options;
  const { headers, body, connect } = timeouts;
  const drain = drainFor(requestTimeout);
  const delay = knowsShutdownDelay() ? { shutdownDelay: `${shutdownDelay}ms` } : {};
  return configFor(noGateway, {
    proxy: {
      port,
      maxBodyBytes: 2_000_000,
      timeouts: { headers: `${headers}ms`, body: `${body}ms`, shutdown: `${drain}ms`, ...delay },
    },
    admin: { port: adminPort },
    // The order id in the path of every operation, so that the first line of a request says whose it is.
    operations: { 'manager-balance': { path: '/api/v2/get-balance/manager/{login}/{endpoint}' } },
    environments: Object.fromEntries(
      [...urls].map(([site, baseUrl], index) => [
        site,
        {
          baseUrl,
          product: 'gw',
          timeouts: { connect: `${connect}ms`, request: `${requestTimeout}ms` },
          maxInFlight: 2_000,
          responseHeaders: [`X-Revision-${revision}`],
          ...(caFile !== undefined && baseUrl.startsWith('https:') ? { caFile } : {}),
          ...egressOf(egressUrls[index % egressUrls.length], caFile),
        },
      ]),
    ),
    signing: { maxQueue: 2_000 },
  });
}

function egressOf(url: string | undefined, caFile: string | undefined): object {
  if (url === undefined) return {};
  return { egressProxy: { url, ...(url.startsWith('https:') ? { caFile } : {}) } };
}

let known: boolean | undefined;

/** Whether the configuration schema of this version has the delay between SIGTERM and the end of listening. */
export function knowsShutdownDelay(): boolean {
  known ??= readFileSync(`${root}config/schema.json`, 'utf8').includes('"shutdownDelay"');
  return known;
}
