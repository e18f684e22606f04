import { isDeepStrictEqual } from 'node:util';
import { KeySet, loadKeys } from '../auth/jwt/key-set.ts';
import { createJwtVerifier, type JwtIssuer } from '../auth/jwt/verify.ts';
import type { Config } from '../config/schema.ts';
import type { EventObserver } from '../observability/events.ts';
import type { Logger } from '../observability/logger.ts';
import { createOutageLog, type ReportUp } from '../observability/outages.ts';
import type { TlsPeers } from '../observability/tls-peers.ts';
import type { BackoffOptions } from '../util/backoff.ts';
import { setTimer, type WallClock } from '../util/clock.ts';

/** Milliseconds between refreshes of keys: from a server, and from a file. */
const refreshInterval = { server: 600_000, file: 60_000 };

const messages = {
  failed: 'keys of a JWT issuer unavailable',
  recovered: 'keys of a JWT issuer available again',
};

interface JwtIssuersOptions extends BackoffOptions, WallClock {
  readonly log: Pick<Logger, 'message'>;
  readonly metrics: Pick<EventObserver, 'jwtVerified'>;
  readonly tlsPeers?: Pick<TlsPeers, 'servers'>;
}

interface RunningIssuer extends JwtIssuer {
  readonly keys: KeySet;
  /** Also of fetches before a reload. */
  readonly outage: ReportUp;
  /** Last; milliseconds since 1970, 0 before the first time. */
  fetchedAt: number;
}

export type JwtIssuers = ReturnType<typeof createJwtIssuers>;

/**
 * The issuers of one configuration, with their keys.
 *
 * @param previous its keys are used until the first are fetched, so that a reload during an outage loses nothing
 */
export function createJwtIssuers(
  config: Config,
  options: JwtIssuersOptions,
  previous?: { readonly list: readonly RunningIssuer[] },
) {
  const { log, metrics, clock } = options;
  const issuers = createAll(config, options, previous?.list ?? []);
  const verify = createJwtVerifier({
    callers: config.callers,
    issuers,
    clock,
    observer: {
      tokenVerified: (issuer, result) => metrics.jwtVerified(issuer, result),
      tokenAmbiguous(issuer, names) {
        const all = { issuer, callers: names.join(', ') };
        log.message('error', 'a JWT matches the credentials of more than one caller', all);
      },
    },
  });
  return {
    list: issuers,
    /** Verifies a token. Absent without an issuer. */
    verify: issuers.length === 0 ? undefined : verify,
    /** Whether the keys of every issuer can be used. */
    available: () => issuers.every(({ keys }) => keys.available),
    /** Starts to fetch the keys of all issuers, and does not wait for them. */
    begin(): void {
      for (const { keys } of issuers) keys.refresh();
    },
    stop(): void {
      for (const { keys } of issuers) keys.stop();
    },
  };
}

/** A function of its own, so that nothing that stays holds the previous ones. */
function createAll(
  { jwtIssuers }: Config,
  { log, clock, monotonic, random, tlsPeers }: JwtIssuersOptions,
  previous: readonly RunningIssuer[],
): RunningIssuer[] {
  return Object.entries(jwtIssuers).map(([name, config]) => {
    const { issuer: id, jwks, maxStale } = config;
    const before = previous.find(
      (one) => one.name === name && one.config.issuer === id && isDeepStrictEqual(one.config.jwks, jwks),
    );
    const outage = before?.outage ?? createOutageLog({ log, monotonic, messages, source: name });
    const observer = {
      keysFetched() {
        outage(true);
        issuer.fetchedAt = clock();
      },
      keyFetchFailed: (cause: string) => outage(false, cause),
    };
    const options = {
      load: (stopped: AbortSignal) => loadKeys(config, stopped, tlsPeers?.servers({ role: 'jwt-issuer' })),
      refreshInterval: Math.min(refreshInterval[jwks && 'file' in jwks ? 'file' : 'server'], maxStale / 2),
      maxStale,
      monotonic,
      random,
      setTimer,
      observer,
    };
    const keys = new KeySet(options, before?.keys);
    const issuer: RunningIssuer = { name, config, keys, outage, fetchedAt: before?.fetchedAt ?? 0 };
    return issuer;
  });
}
