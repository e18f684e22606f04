import type { TlsObserver, TlsSession } from '../net/tls-observer.ts';
import { Backoff } from '../util/backoff.ts';
import type { MonotonicClock } from '../util/clock.ts';
import { TokenBucket } from '../util/token-bucket.ts';
import type { EventObserver, TlsEnd } from './events.ts';
import type { HandshakeFailure, Logger } from './logger.ts';

/** Lines about new combinations in a burst, and lines per second after that. */
const limit = { burst: 20, rate: 1 };
/** Milliseconds between two lines about the same combination, and about the same failure with a server. */
const repetition = { combination: Number.MAX_VALUE, failure: 300_000 };

interface TlsPeersOptions extends MonotonicClock {
  readonly log: Pick<Logger, 'message' | 'handshakeFailed'>;
  readonly metrics: Pick<EventObserver, 'tlsConnected' | 'tlsFailed'>;
}

/** Who is at the other ends of our TLS connections. */
export type TlsPeers = ReturnType<typeof createTlsPeers>;

/**
 * Counts TLS connections by what was negotiated, and failed handshakes by problem, so that an operator knows before a
 * higher `minVersion` whom it rejects.
 */
export function createTlsPeers({ log, metrics, monotonic }: TlsPeersOptions) {
  const bucket = new TokenBucket({ ...limit, monotonic });
  const combinations = new Backoff({ initial: repetition.combination, max: repetition.combination });
  const failures = new Backoff({ initial: repetition.failure, max: repetition.failure });
  const isDue = (lines: Backoff, fields: object, isAllowed: () => boolean): boolean => {
    const [now, key] = [monotonic(), JSON.stringify(fields)];
    if (!lines.isDue(now, key) || !isAllowed()) return false;
    lines.recordFailure(now, key);
    return true;
  };
  const connected = (end: TlsEnd, session: TlsSession): void => {
    metrics.tlsConnected(end, session);
    const { version, cipher, peer } = session;
    // Nothing will reject clients that have the newest version, so they share a line.
    const client = peer === undefined || version === 'TLSv1.3' ? {} : { peer };
    const fields = { ...end, version, cipher, ...client };
    if (isDue(combinations, fields, () => bucket.take()))
      log.message('info', 'first TLS connection of this kind', fields);
  };
  return {
    /** Observes the clients of a port. */
    clients: (role: HandshakeFailure['role']): TlsObserver => ({
      connected: (session) => connected({ role }, session),
      failed(failure) {
        metrics.tlsFailed({ role }, failure.problem);
        log.handshakeFailed({ role, ...failure });
      },
    }),
    /** Observes the servers to which this end connects. */
    servers: (end: TlsEnd): TlsObserver => ({
      connected: (session) => connected(end, session),
      failed({ problem, cause }) {
        metrics.tlsFailed(end, problem);
        const fields = { ...end, problem, cause };
        if (isDue(failures, fields, () => true)) log.message('warn', 'TLS handshake failed', fields);
      },
    }),
  };
}
