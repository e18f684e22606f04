import { isDeepStrictEqual } from 'node:util';
import { KeySet } from '../auth/jwt/key-set.ts';
import { loadKeys } from '../auth/jwt/load-keys.ts';
import { createJwtVerifier, type JwtIssuer } from '../auth/jwt/verify.ts';
import type { Config, JwtIssuerConfig } from '../config/schema.ts';
import type { EventObserver } from '../observability/events.ts';
import type { Logger } from '../observability/logger.ts';
import { createOutageLog } from '../observability/outages.ts';
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
  /** What the keys are fetched with. A reload replaces it. */
  readonly source: KeySetSource;
}

interface KeySetSource {
  config: JwtIssuerConfig;
  /** Last; milliseconds since 1970. The age of other keys says nothing about those of another server or file. */
  fetchedAt?: number;
}

/** The issuers of one configuration, with their keys. */
export interface JwtIssuers {
  readonly list: readonly RunningIssuer[];
  /** Verifies a token. Absent without an issuer. */
  readonly verify: ReturnType<typeof createVerifier> | undefined;
  /** Whether the keys of every issuer can be used. */
  available(): boolean;
  /** @param next keeps the keys that it uses too */
  stop(next?: JwtIssuers): void;
}

/**
 * Starts to fetch the keys of all issuers, and does not wait for them.
 *
 * @param previous its keys are kept, so that a reload during an outage loses nothing
 */
export function startJwtIssuers(
  { jwtIssuers, callers }: Config,
  options: JwtIssuersOptions,
  previous?: JwtIssuers,
): JwtIssuers {
  const list = Object.entries(jwtIssuers).map(([name, config]): RunningIssuer => {
    const before = previous?.list.find((one) => one.name === name && sameKeys(one.config, config));
    const source: KeySetSource = before?.source ?? { config };
    source.config = config;
    const keys = before?.keys ?? createKeySet(name, source, options);
    keys.refresh();
    return { name, config, keys, source };
  });
  return {
    list,
    verify: list.length === 0 ? undefined : createVerifier(list, callers, options),
    available: () => list.every(({ keys }) => keys.available),
    stop(next) {
      for (const { keys } of list) {
        if (!next?.list.some((one) => one.keys === keys)) keys.stop();
      }
    },
  };
}

function createVerifier(
  issuers: readonly JwtIssuer[],
  callers: Config['callers'],
  { log, metrics, clock }: JwtIssuersOptions,
) {
  return createJwtVerifier({
    callers,
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
}

function sameKeys(a: JwtIssuerConfig, b: JwtIssuerConfig): boolean {
  return a.issuer === b.issuer && isDeepStrictEqual(a.jwks, b.jwks);
}

function createKeySet(name: string, source: KeySetSource, options: JwtIssuersOptions): KeySet {
  const { log, clock, monotonic, random } = options;
  const { jwks = {} } = source.config;
  const outage = createOutageLog({ log, monotonic, messages, source: name });
  return new KeySet({
    load: (stopped) => loadKeys(source.config, stopped, options.tlsPeers?.servers({ role: 'jwt-issuer' })),
    refreshInterval: 'file' in jwks ? refreshInterval.file : refreshInterval.server,
    get maxStale() {
      return source.config.maxStale;
    },
    monotonic,
    random,
    setTimer,
    observer: {
      keysFetched() {
        outage(true);
        source.fetchedAt = clock();
      },
      keyFetchFailed: (cause) => outage(false, cause),
    },
  });
}
