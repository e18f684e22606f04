import { ProxyError } from '../errors.ts';
import type { RequestContext } from '../request-context.ts';
import type { MonotonicClock } from '../util/clock.ts';
import { TokenBucket } from '../util/token-bucket.ts';
import { type AuditedAttempt, callbackFields, endFields, intentFields } from './record-fields.ts';
import type { AuditTrail } from './trail.ts';

/** Records in a burst, and records per second after that: about 60 MB a day. */
const limit = { burst: 100, rate: 1 };

/** The limit of a caller. */
interface Limited {
  readonly bucket: TokenBucket;
  /** Rejected requests that have no record. */
  omitted: number;
}

interface AuditLogOptions extends MonotonicClock {
  readonly trail: Pick<AuditTrail, 'append' | 'confirm'>;
  /** Nothing is sent before its intent is written. */
  readonly required: boolean;
  /** So many rejected requests and callbacks have no record, because of their caller's limit. */
  readonly recordsOmitted: (count: number) => void;
}

/** Records what was signed, for whom and with which key, and how it ended. */
export class AuditLog {
  readonly #options: AuditLogOptions;
  /**
   * The records of rejected requests and callbacks, which cost a stranger less than the disk, are limited for each caller,
   * so that no one fills it or uses up the records of another, and for all requests of unknown callers together. Callers
   * below their limit have no entry after {@link recordOmitted}.
   */
  readonly #limits = new Map<string | undefined, Limited>();

  constructor(options: AuditLogOptions) {
    this.#options = options;
  }

  /**
   * To be called before a signed request is sent. With `required`, resolves when the record is written.
   *
   * @throws ProxyError `audit-unavailable`
   */
  intent(attempt: AuditedAttempt): Promise<void> | undefined {
    const { trail, required } = this.#options;
    const fields = intentFields(attempt);
    if (required) return trail.confirm('intent', fields).then(throwUnlessRecorded);
    trail.append('intent', fields);
    return undefined;
  }

  /** A request that had an upstream attempt has a result; any other was rejected, unless it was about a callback. */
  requestFinished(context: RequestContext): void {
    const { trail } = this.#options;
    if (context.attempts > 0) trail.append('result', endFields(context));
    else if (context.callback !== undefined) {
      // Strangers can cause them, with a genuine one again and again.
      if (this.#mayRecord(context.caller)) trail.append('callback', callbackFields(context));
    } else if (hasIntent(context) || this.#mayRecord(context.caller)) {
      trail.append('rejected', endFields(context));
    }
  }

  /** To be called each minute and at the end: records how many requests had no record since the last call, if any. */
  recordOmitted(): void {
    for (const [caller, limited] of this.#limits) {
      const count = limited.omitted;
      limited.omitted = 0;
      if (limited.bucket.isFull()) this.#limits.delete(caller);
      if (count === 0) continue;
      this.#options.recordsOmitted(count);
      this.#options.trail.append('omitted', { caller, count });
    }
  }

  /** Whether a rejected request may have a record; counts it if not. */
  #mayRecord(caller: string | undefined): boolean {
    const { monotonic } = this.#options;
    const limited = this.#limits.get(caller) ?? {
      bucket: new TokenBucket({ ...limit, monotonic }),
      omitted: 0,
    };
    this.#limits.set(caller, limited);
    const isWithin = limited.bucket.take();
    if (!isWithin) limited.omitted += 1;
    return isWithin;
  }
}

function throwUnlessRecorded(isRecorded: boolean): void {
  if (isRecorded) return;
  throw new ProxyError(
    'audit-unavailable',
    'The audit record of this request could not be written, so nothing was sent. Send the request again.',
    { retryAfter: 1 },
  );
}

/** Whether the trail may have an intent of this request: its end is recorded, whatever the limit. */
function hasIntent({ keyVersion, reason }: RequestContext): boolean {
  return keyVersion !== undefined || reason === 'audit-unavailable';
}
