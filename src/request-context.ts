import type { VerifiedCredential } from './auth/authenticate.ts';
import type { JwtProblem } from './auth/jwt/jwt-error.ts';
import type { Limit, Outcome, Reason } from './errors.ts';
import type { NetworkFailure } from './net/network-failure.ts';
import type { KeyKind } from './oauth1/methods.ts';

/**
 * What is known of a request so far. The steps of the pipeline and the forwarder write it as they work: if one of them
 * rejects the request, or the process has to end, the response and the log line must still be correct.
 */
export interface RequestRecord {
  /** Countersign's own request ID (UUID), returned as `X-Request-Id`. */
  readonly id: string;
  /** What the client sent as `X-Request-Id`, if it can be logged. */
  readonly callerRequestId?: string | undefined;
  /** Trace ID (32 hex digits) of a known caller's valid W3C `traceparent` header, or of the trace that is recorded. */
  traceId?: string | undefined;
  /** Sampled flag of `traceparent`: only a sampled trace can be looked up. */
  traceSampled?: boolean | undefined;
  /** Monotonic clock, milliseconds. */
  readonly startedAt: number;
  caller?: string;
  /** How the caller proved who it is, redacted. Set together with the caller. */
  credential?: VerifiedCredential;
  /** Set together with the login or, if it is `denied`, without it. */
  decision?: AuthorizationDecision;
  /** A configured environment; absent for an unknown one. */
  environment?: string;
  operation?: string;
  /** Set together with the operation. An operation that is not read-only is a payment. */
  readOnly?: boolean;
  /** Of a payment: the merchant's order ID as it may be written, see gateway/order-id.ts. */
  orderId?: string | undefined;
  /** Of a payment: where its status is queried, see gateway/status-path.ts. */
  statusPath?: string | undefined;
  /** As it may be written: redacted if it looks like a card number. Set only after the caller is authorized for it. */
  login?: string;
  /** That the operation needs, also if there is none; absent again if the login has no keys at all. */
  keyKind?: KeyKind | undefined;
  /** Of the key that the forwarded response is about, or else of the last one that signed. */
  keyVersion?: number;
  keyFingerprint?: string;
  /** Upstream requests, including those that could not connect. */
  attempts: number;
  /** Upstream requests that had a connection, so a byte of them may have been sent. Absent if there are none. */
  writtenAttempts?: number;
  /** Why the gateway was unreachable, for the last attempt that could not connect. */
  unreachable?: NetworkFailure;
  /** The TLS alert with which the gateway ended the last attempt that it ended so. */
  tlsAlert?: string;
  /** Which limit was reached, for `overloaded` and `caller-limit`. */
  limit?: Limit | undefined;
  /** The request that sent this payment before: what became of it is what became of the payment. */
  firstRequestId?: string | undefined;
  /** HTTP status of the last gateway response. */
  gatewayStatus?: number;
  /** Whether the last response rejected the key; absent if it said nothing about it. */
  keyRejected?: boolean | undefined;
  /** What is known of the cause, if the gateway responded with 401 or 403 to at least one attempt. */
  rejection?: Rejection;
  /** The gateway's response is about another order than the request; absent if nothing says so. */
  orderMismatch?: OrderMismatch | undefined;
  /** For rejected clients only. Apart from the fields above, since metrics show only what an authorized caller may use. */
  rejected?: (ClientDetails & RejectedTarget) | undefined;
  /** Seconds, retries included. Absent for a step that was not reached. */
  readonly durations: {
    /** The claim of the order ID. */
    claim?: number;
    key?: number;
    /** Signing and its queue. */
    sign?: number;
    /** All attempts, those without a connection too; of a response that is streamed, until its first part. */
    gateway?: number;
  };
}

/** The response that was sent to the client. */
export interface ResponseResult {
  readonly status: number;
  /** Why Countersign responded itself, or why the gateway's response was truncated. */
  readonly reason?: Reason;
  readonly outcome: Outcome;
  /** `status` field of a form-encoded gateway response, as a closed value; `coded` for one with a content coding. */
  readonly gatewayResult?: GatewayResult | undefined;
  /** `error-code` of a form-encoded gateway response, as a closed value. */
  readonly gatewayErrorCode?: GatewayErrorCode | undefined;
  /** `serial-number` of a form-encoded gateway response, if UUID-shaped (docs/gateway-interface.md section 2.2). */
  readonly serialNumber?: string | undefined;
  /** For `verify-callback` only. */
  readonly callback?: CallbackResult;
}

/** What became of a callback. `key-missing`: the login has no control key, so nothing can be said. */
export const callbackResults = ['verified', 'not-verified', 'key-missing'] as const;
export type CallbackResult = (typeof callbackResults)[number];

/** `would-deny`: denied in dry-run mode, so the request was let through. */
export const authorizationDecisions = ['allowed', 'denied', 'would-deny'] as const;
export type AuthorizationDecision = (typeof authorizationDecisions)[number];

/** A client that Countersign rejected, so that an operator can find it. Only for the log. */
export interface ClientDetails {
  /** Address of the other end of the connection, which may be a load balancer. */
  readonly peer?: string | undefined;
  readonly method?: string | undefined;
  readonly credential: 'none' | 'token' | 'jwt' | 'malformed-token' | 'other-scheme' | 'certificate';
  /** Why a JWT was rejected. */
  readonly jwtProblem?: JwtProblem | undefined;
  /** The subject of a JWT whose signature is valid, although no caller has it. */
  readonly jwtSubject?: string | undefined;
  /** The first 8 hex digits of the token's SHA-256, to compare with `tokenSha256` in the configuration. */
  readonly tokenHash?: string | undefined;
  /** Names of the client certificate. Only without `certificateProblem` has a CA vouched for them. */
  readonly certificateSubject?: string | undefined;
  readonly certificateIssuer?: string | undefined;
  /** Why TLS did not verify the certificate: a code of OpenSSL. */
  readonly certificateProblem?: string | undefined;
}

/** Where a rejected request would have gone. */
export interface RejectedTarget {
  readonly environment?: string;
  readonly operation?: string;
  /** A login that is configured or has cached keys, else `unknown`. */
  readonly login?: string | undefined;
}

/** Everything about a finished request, for the log and the metrics. Every field may be logged. */
export interface RequestContext
  extends Readonly<Omit<RequestRecord, 'durations'>>,
    Omit<ResponseResult, 'status'> {
  /** Absent if no response was sent. */
  readonly status?: number;
  readonly durations: Readonly<RequestRecord['durations']> & { readonly total?: number };
}

/**
 * The status values of docs/gateway-interface.md sections 3 and 12, or `other`; `coded` if the response cannot be read. Of
 * those of section 12 none is final.
 */
export const gatewayResults = [
  'approved',
  'declined',
  'error',
  'filtered',
  'processing',
  'unknown',
  'chain_declined',
  'other',
  'coded',
] as const;
export type GatewayResult = (typeof gatewayResults)[number];

/** What of a response is not what was signed. */
export const orderMismatches = ['order-id', 'amount', 'currency'] as const;
export type OrderMismatch = (typeof orderMismatches)[number];

/** The one error code of docs/gateway-interface.md section 7 (124: ambiguous client_orderid), or `other`. */
export type GatewayErrorCode = '124' | 'other';

/**
 * What is known of the cause of a rejection of the gateway: `other-key` if the gateway then accepted another version (a rotation is in
 * progress), `clock-skew` if its `Date` header was too far from our clock, else only that the `current-key` signed.
 */
export const rejections = ['current-key', 'other-key', 'clock-skew'] as const;
export type Rejection = (typeof rejections)[number];
