import { errorCode, ProxyError, type Reason } from '../../errors.ts';
import type { Destination } from '../../gateway/router.ts';
import { ConnectionError, type NetworkFailure } from '../../net/network-failure.ts';
import { notSentAdvice, unknownPaymentAdvice, unknownQueryAdvice } from '../outcome.ts';

/** What is known of a failed connection. */
export interface Cause {
  readonly unreachable?: NetworkFailure | undefined;
  readonly error?: Error | undefined;
}

export type FailureReason = Extract<Reason, `gateway-${string}`>;

/** An upstream request without a usable response. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly reason: FailureReason;
  /** `false` only if provably no byte of the request was written. */
  readonly written: boolean;
  /** A pooled connection closed before any byte of a response: most likely it was closed while idle. */
  readonly stalePool: boolean;
  /** Why the connection could not be established; set for `gateway-unreachable` only. */
  readonly unreachable: NetworkFailure | undefined;
  /** The TLS alert with which the gateway ended the connection, such as `certificate required`. */
  readonly tlsAlert: string | undefined;

  constructor(
    reason: FailureReason,
    written: boolean,
    stalePool: boolean,
    { unreachable, error }: Cause = {},
  ) {
    super(reason, { cause: error });
    this.reason = reason;
    this.written = written;
    this.stalePool = stalePool;
    this.unreachable = unreachable;
    this.tlsAlert = tlsAlertOf(error);
  }
}

/** The alert that was received (RFC 8446 section 6.2). Where a write was pending, only the text of OpenSSL has it. */
function tlsAlertOf(error: Error | undefined): string | undefined {
  const code = errorCode(error);
  const text = code === 'EPROTO' ? error?.message.slice(0, 500) : code?.toLowerCase().replaceAll('_', ' ');
  return /\balert ([a-z ]{1,40})(?::|$)/.exec(text ?? '')?.[1];
}

/** Clients pass these texts on to an operator, so they name the kind of failure. */
const unreachableTexts: Readonly<Record<NetworkFailure, string>> = {
  dns: "The gateway's host name could not be resolved (DNS)",
  refused: 'The gateway refused the connection',
  timeout: 'The gateway did not accept a connection within the timeout',
  tls: 'The TLS handshake with the gateway failed (TLS)',
  other: 'The connection to the gateway failed',
  'proxy-unreachable': 'The egress proxy cannot be reached',
  'proxy-timeout': 'The egress proxy made no tunnel to the gateway within the timeout',
  'proxy-tls': 'The TLS handshake with the egress proxy failed (TLS)',
  'proxy-credentials': 'The egress proxy did not accept the credentials of Countersign',
  'proxy-denied': 'The egress proxy denied the tunnel to the gateway',
  'proxy-failed': 'The egress proxy could not reach the gateway',
  'proxy-invalid': 'The egress proxy sent an invalid response',
};

/** The error for a client whose request got no usable gateway response. */
export function proxyErrorFor(failure: UpstreamError, { settings, operation }: Destination): ProxyError {
  const advice = operation.readOnly ? unknownQueryAdvice : unknownPaymentAdvice;
  const details = {
    'gateway-unreachable': `${unreachableTexts[failure.unreachable ?? 'other']}${noteOf(failure)}. ${notSentAdvice}`,
    'gateway-timeout': `No complete response within ${settings.timeouts.request / 1000} s. ${advice}`,
    'gateway-reset': `The connection ended before the response was complete${noteOf(failure)}. ${advice}`,
    'gateway-reply-invalid': `The gateway's response is not valid HTTP, or has neither a length nor chunks, so that it may be a part of one. ${advice}`,
  };
  return new ProxyError(failure.reason, details[failure.reason], { cause: failure });
}

/** What the gateway's TLS or the egress proxy said. */
function noteOf({ tlsAlert, cause }: UpstreamError): string {
  if (tlsAlert !== undefined) return ` (TLS alert: ${tlsAlert})`;
  return cause instanceof ConnectionError && cause.failure.startsWith('proxy-') ? ` (${cause.message})` : '';
}
