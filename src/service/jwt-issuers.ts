import { isDeepStrictEqual } from 'node:util';
import { KeySet, type KeySetOptions, loadKeys } from '../auth/jwt/key-set.ts';
import { createJwtVerifier, type JwtIssuer } from '../auth/jwt/verify.ts';
import type { Config, JwtIssuerConfig } from '../config/schema.ts';
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
  /** Last; milliseconds since 1970. */
  fetchedAt: number | undefined;
}

/** The issuers of one configuration, with their keys. */
export interface JwtIssuers {
  readonly list: readonly RunningIssuer[];
  /** Verifies a token. Absent without an issuer. */
  readonly verify: ReturnType<typeof createVerifier> | undefined;
  /** Whether the keys of every issuer can be used. */
  available(): boolean;
  /** Starts to fetch the keys of all issuers, and does not wait for them. */
  begin(): void;
  stop(): void;
}

/** @param previous its keys are used until the first are fetched, so that a reload during an outage loses nothing */
export function createJwtIssuers(
  config: Config,
  options: JwtIssuersOptions,
  previous?: Pick<JwtIssuers, 'list'>,
): JwtIssuers {
  const list = createAll(config, options, previous?.list ?? []);
  return {
    list,
    verify: list.length === 0 ? undefined : createVerifier(list, config.callers, options),
    available: () => list.every(({ keys }) => keys.available),
    begin() {
      for (const { keys } of list) keys.refresh();
    },
    stop() {
      for (const { keys } of list) keys.stop();
    },
  };
}

/** A function of its own, so that nothing that stays holds the previous ones. */
function createAll(
  { jwtIssuers }: Config,
  options: JwtIssuersOptions,
  previous: readonly RunningIssuer[],
): RunningIssuer[] {
  return Object.entries(jwtIssuers).map(([name, config]) => {
    const before = previous.find((one) => one.name === name && sameKeys(one.config, config));
    const outage =
      before?.outage ??
      createOutageLog({ log: options.log, monotonic: options.monotonic, messages, source: name });
    const observer = {
      keysFetched() {
        outage(true);
        issuer.fetchedAt = options.clock();
      },
      keyFetchFailed: (cause: string) => outage(false, cause),
    };
    const keys = createKeySet(config, observer, options, before?.keys);
    const issuer: RunningIssuer = { name, config, keys, outage, fetchedAt: before?.fetchedAt };
    return issuer;
  });
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

function createKeySet(
  config: JwtIssuerConfig,
  observer: KeySetOptions['observer'],
  { monotonic, random, tlsPeers }: JwtIssuersOptions,
  previous: KeySet | undefined,
): KeySet {
  const { jwks = {}, maxStale } = config;
  return new KeySet(
    {
      load: (stopped) => loadKeys(config, stopped, tlsPeers?.servers({ role: 'jwt-issuer' })),
      refreshInterval: 'file' in jwks ? refreshInterval.file : refreshInterval.server,
      maxStale,
      monotonic,
      random,
      setTimer,
      observer,
    },
    previous,
  );
}
