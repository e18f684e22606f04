import { responsibleParty } from '../errors.ts';
import type { RequestContext } from '../request-context.ts';
import type { MonotonicClock } from '../util/clock.ts';
import { TokenBucket } from '../util/token-bucket.ts';
import type { Logger } from './logger.ts';

/** Lines in a burst, and lines per second after that. */
const limit = { burst: 100, rate: 20 };

/**
 * Limits the rate of log lines for requests that were rejected before their caller was known, and for failed TLS
 * handshakes: they cost the client less than a line costs us. The metrics still count every one of these requests.
 *
 * @param options `suppressed` is called for each line that was not written
 */
export function sampleRejections(
  log: Logger,
  { suppressed, monotonic }: MonotonicClock & { readonly suppressed: () => void },
): Logger {
  const bucket = new TokenBucket({ ...limit, monotonic });
  let skipped = 0;
  const sample = (write: () => void): void => {
    if (!bucket.take()) {
      skipped += 1;
      suppressed();
      return;
    }
    if (skipped > 0) log.message('warn', 'rejected requests without a log line', { count: skipped });
    skipped = 0;
    write();
  };
  return {
    ...log,
    requestFinished(context) {
      if (isSampled(context)) sample(() => log.requestFinished(context));
      else log.requestFinished(context);
    },
    handshakeFailed: (failure) => sample(() => log.handshakeFailed(failure)),
  };
}

/** What is our fault always has a line, except what anybody can cause while the keys of an issuer are missing. */
function isSampled(context: RequestContext): boolean {
  if (context.caller !== undefined || context.reason === undefined) return false;
  return responsibleParty(context) === 'caller' || context.reason === 'issuer-unavailable';
}
