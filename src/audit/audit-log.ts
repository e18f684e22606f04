import { ProxyError } from '../errors.ts';
import type { RequestContext, RequestOrigin, UpstreamRecord } from '../request-context.ts';
import type { MonotonicClock, WallClock } from '../util/clock.ts';
import { TokenBucket } from '../util/token-bucket.ts';
import { type AuditedAttempt, endFields, intentFields, members } from './record-fields.ts';
import type { AuditTrail } from './trail.ts';

/** Records in a burst, and records per second after that: about 60 MB a day. */
const limit = { burst: 100, rate: 1 };

/** Rejected requests of a caller that have no record. */
interface Omitted {
  /** `undefined`: requests that were rejected before their caller was known. */
  readonly caller: string | undefined;
  readonly count: number;
}

interface Limited {
  readonly bucket: TokenBucket;
  omitted: number;
}

interface AuditLogOptions extends WallClock, MonotonicClock {
  readonly trail: Pick<AuditTrail, 'append' | 'confirm'>;
  /** Nothing is sent before its intent is written. */
  readonly required: boolean;
  /** So many rejected requests have no record, because of their caller's limit. */
  readonly recordsOmitted: (count: number) => void;
}

/** Records what was signed, for whom and with which key, and how it ended. */
export class AuditLog {
  readonly #options: AuditLogOptions;
  readonly #limit: RejectionLimit;

  constructor(options: AuditLogOptions) {
    this.#options = options;
    this.#limit = new RejectionLimit(options);
  }

  /**
   * To be called before a signed request is sent. With `required`, resolves when the record is written.
   *
   * @throws ProxyError `audit-unavailable`
   */
  intent(attempt: AuditedAttempt): Promise<void> | undefined {
    const { trail, required, clock } = this.#options;
    const fields = intentFields(attempt, clock());
    if (required) return this.#confirm(fields);
    trail.append('intent', fields);
    return undefined;
  }

  /** A request that had an upstream attempt has a result; any other was rejected. */
  requestFinished(context: RequestContext): void {
    const { trail, clock } = this.#options;
    if (context.attempts > 0) {
      trail.append('result', endFields(context, clock()));
      return;
    }
    const { caller } = context;
    if (!hasIntent(context)) {
      if (!this.#limit.allows(caller)) return;
      this.#recordOmitted(this.#limit.takeOmitted(caller));
    }
    trail.append('rejected', endFields(context, clock()));
  }

  canaryFinished({ id }: RequestOrigin, { attempts, gatewayStatus }: UpstreamRecord): void {
    const fields = { request: id, canary: true, gatewayStatus, attempts };
    this.#options.trail.append('result', members(this.#options.clock(), fields));
  }

  /** Records how many requests had no record since the last call, if any. */
  recordOmitted(): void {
    for (const omitted of this.#limit.takeAllOmitted()) this.#recordOmitted(omitted);
  }

  #recordOmitted({ caller, count }: Omitted): void {
    if (count === 0) return;
    this.#options.recordsOmitted(count);
    this.#options.trail.append('omitted', members(this.#options.clock(), { caller, count }));
  }

  async #confirm(fields: string): Promise<void> {
    if (await this.#options.trail.confirm('intent', fields)) return;
    throw new ProxyError(
      'audit-unavailable',
      'The audit record of this request could not be written, so nothing was sent. Send the request again.',
      { retryAfter: 1 },
    );
  }
}

/** Whether the trail may have an intent of this request: its end is recorded, whatever the limit. */
function hasIntent({ keyVersion, reason }: RequestContext): boolean {
  return keyVersion !== undefined || reason === 'audit-unavailable';
}

/**
 * Limits the records of rejected requests, which cost the client less than a record costs the disk: for each caller, so that
 * no one fills it or uses up the records of another, and for all requests of unknown callers together. The others are
 * counted, and the count becomes a record.
 */
class RejectionLimit {
  readonly #clock: MonotonicClock;
  /** Those that are below their limit have no entry after {@link takeAllOmitted}. */
  readonly #callers = new Map<string | undefined, Limited>();

  constructor(clock: MonotonicClock) {
    this.#clock = clock;
  }

  /** Whether a record may be written; counts it if not. */
  allows(caller: string | undefined): boolean {
    let limited = this.#callers.get(caller);
    if (limited === undefined) {
      limited = { bucket: new TokenBucket({ ...limit, monotonic: this.#clock.monotonic }), omitted: 0 };
      this.#callers.set(caller, limited);
    }
    if (limited.bucket.take()) return true;
    limited.omitted += 1;
    return false;
  }

  /** The number of omitted records of this caller since the last call. */
  takeOmitted(caller: string | undefined): Omitted {
    const limited = this.#callers.get(caller);
    const count = limited?.omitted ?? 0;
    if (limited !== undefined) limited.omitted = 0;
    return { caller, count };
  }

  /** The same of all callers. */
  takeAllOmitted(): Omitted[] {
    const all = [...this.#callers.keys()].map((caller) => this.takeOmitted(caller));
    for (const [caller, { bucket }] of this.#callers) if (bucket.isFull()) this.#callers.delete(caller);
    return all;
  }
}
