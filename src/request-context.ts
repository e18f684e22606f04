import type { Outcome, Reason } from './errors.ts';
import type { KeyKind } from './oauth1/methods.ts';
import type { NetworkFailure } from './util/network-failure.ts';

/** Durations of one exchange in seconds; a step that was not reached has none. */
export interface Durations {
  total?: number;
  key?: number;
  sign?: number;
  /** From the first byte sent to the gateway to the last byte of its reply, retries included. */
  gateway?: number;
}

/**
 * What is known about one request while it is handled: filled in step by step, read once at the end by the
 * log and the metrics. Holds nothing that may not be logged.
 */
export interface RequestContext {
  /** Countersign's own id of the request (UUID), given back as `X-Request-Id`. */
  readonly id: string;
  /** Trace id (32 hex digits) of the caller's W3C `traceparent`, where it sent a valid one. */
  readonly traceId?: string;
  /** Whether the caller's `traceparent` has the sampled flag: only then is there a trace to look up. */
  readonly traceSampled?: boolean;
  /** Monotonic clock, milliseconds. */
  readonly startedAt: number;
  caller?: string;
  /** Set once it is known to be a configured one. */
  environment?: string;
  operation?: string;
  /** Whether the operation only reads (`readOnly`); set with it. What is not read-only is a payment. */
  readOnly?: boolean;
  /** Set only after the caller was allowed to use it. */
  login?: string;
  keyVersion?: number;
  keyKind?: KeyKind;
  keyFingerprint?: string;
  /** HTTP status given to the caller. */
  status?: number;
  /** Why Countersign answered itself, or why the gateway's answer was not passed on whole. */
  reason?: Reason;
  outcome: Outcome;
  /** How many requests were written, or tried, to the gateway. */
  attempts: number;
  /** Of how many of them a byte may have been written, since they had a connection; absent where of none. */
  writtenAttempts?: number;
  /** Why the last attempt that could not connect to the gateway did not. */
  unreachable?: NetworkFailure;
  /** HTTP status of the gateway's last reply. */
  gatewayStatus?: number;
  /** `status` field of a form-encoded gateway reply, as a closed value. */
  gatewayResult?: GatewayResult;
  /** `error-code` of a form-encoded gateway reply, as a closed value. */
  gatewayErrorCode?: GatewayErrorCode;
  /** Set where the gateway answered 403 to at least one attempt: what it most likely objected to. */
  rejection?: Rejection;
  /** `serial-number` of a form-encoded gateway reply, where it is UUID-shaped (interface section 2.2). */
  serialNumber?: string;
  readonly durations: Durations;
}

/** Interface section 3 names four status values; everything else is `other`. */
export type GatewayResult = 'approved' | 'declined' | 'error' | 'filtered' | 'other';

/** Interface section 7 names one error code, 124 (ambiguous client_orderid); everything else is `other`. */
export type GatewayErrorCode = '124' | 'other';

/**
 * A 403 of the gateway: `other-key` when it then accepted another version (a rotation is under way),
 * `clock-skew` when its `Date` header was too far from our clock, else `current-key`.
 */
export type Rejection = 'current-key' | 'other-key' | 'clock-skew';

/**
 * Whether the gateway answered a payment with a server error: that is an answer, and yet the payment may have
 * been carried out.
 */
export function isPaymentServerError(exchange: RequestContext): boolean {
  const { readOnly = true, outcome, gatewayStatus = 0 } = exchange;
  return !readOnly && outcome === 'answered' && gatewayStatus >= 500;
}
