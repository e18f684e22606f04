import type { Outcome, Reason } from './errors.ts';
import type { KeyKind } from './oauth1/methods.ts';
import type { NetworkFailure } from './util/network-failure.ts';

/** Seconds; a step that was not reached has none. */
export interface UpstreamDurations {
  key?: number;
  /** Signing, its queue and retries included. */
  sign?: number;
  /** From the first byte sent to the gateway to the last byte of its response, retries included. */
  gateway?: number;
}

/**
 * What is known of a request's attempts at the gateway. Written by the forwarder alone, and while it still works:
 * when the process has to end, the response and the log line have to be true of the attempts so far.
 */
export interface UpstreamRecord {
  keyVersion?: number;
  keyKind?: KeyKind;
  keyFingerprint?: string;
  /** How many upstream requests were written, or tried. */
  attempts: number;
  /** For how many of them a byte may have been written, since they had a connection; absent where for none. */
  writtenAttempts?: number;
  /** Why the last attempt that could not connect to the gateway could not. */
  unreachable?: NetworkFailure;
  /** HTTP status of the gateway's last response. */
  gatewayStatus?: number;
  /** Set where the gateway answered 403 to at least one attempt: what it most likely objected to. */
  rejection?: Rejection;
  readonly durations: UpstreamDurations;
}

export function createUpstreamRecord(): UpstreamRecord {
  return { attempts: 0, durations: {} };
}

/** The response that the client got. */
export interface ResponseResult {
  readonly status: number;
  /** Why Countersign responded itself, or why the gateway's response was not forwarded whole. */
  readonly reason?: Reason;
  readonly outcome: Outcome;
  /** `status` field of a form-encoded gateway response, as a closed value. */
  readonly gatewayResult?: GatewayResult;
  /** `error-code` of a form-encoded gateway response, as a closed value. */
  readonly gatewayErrorCode?: GatewayErrorCode;
  /** `serial-number` of a form-encoded gateway response, where it is UUID-shaped (interface section 2.2). */
  readonly serialNumber?: string;
}

/** What the checks of a request have found out, up to the one that rejected it. */
export interface RequestFacts {
  caller?: string;
  /** Set once it is known to be a configured one. */
  environment?: string;
  operation?: string;
  /** Whether the operation only reads; set with it. What is not read-only is a payment. */
  readOnly?: boolean;
  /** Set only after the caller was authorized to use it. */
  login?: string;
}

/** Which request it is. */
export interface RequestIdentity {
  /** Countersign's own ID of the request (UUID), given back as `X-Request-Id`. */
  readonly id: string;
  /** Trace ID (32 hex digits) of the client's W3C `traceparent`, where it sent a valid one. */
  readonly traceId?: string;
  /** Whether the client's `traceparent` has the sampled flag: only then is there a trace to look up. */
  readonly traceSampled?: boolean;
  /** Monotonic clock, milliseconds. */
  readonly startedAt: number;
}

/** All that is known of a request that has ended, for the log and the metrics. Holds nothing that may not be logged. */
export interface RequestContext
  extends RequestIdentity,
    Readonly<RequestFacts>,
    Readonly<Omit<UpstreamRecord, 'durations'>>,
    Omit<ResponseResult, 'status'> {
  /** Absent where the client got none. */
  readonly status?: number;
  readonly durations: Readonly<UpstreamDurations> & { readonly total?: number };
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
export function isPaymentServerError(
  context: Pick<RequestContext, 'readOnly' | 'outcome' | 'gatewayStatus'>,
): boolean {
  const { readOnly = true, outcome, gatewayStatus = 0 } = context;
  return !readOnly && outcome === 'answered' && gatewayStatus >= 500;
}
