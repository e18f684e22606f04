import type { Head as AuditHead } from '../audit/chain.ts';
import type { JwtResult } from '../auth/jwt/verify.ts';
import type { KeySourceObserver, SigningObserver } from '../keys/key-source.ts';
import type { CurrentKeyObserver } from '../keys/selector.ts';
import type { NetworkFailure } from '../net/network-failure.ts';
import type { TlsUser } from '../net/tls-files.ts';
import type { TlsProblem, TlsSession } from '../net/tls-observer.ts';
import type { MethodName } from '../oauth1/methods.ts';
import type { AuthorizationDecision, RequestContext } from '../request-context.ts';

interface Route {
  readonly environment: string;
  readonly operation: string;
}

/** One gateway response; each retry counts. Durations in seconds. */
export interface GatewayResponseEvent extends Route {
  readonly status: number;
  readonly seconds: number;
  /** Gateway clock minus local clock in seconds, from its `Date` header; absent if it sent none. */
  readonly clockSkew?: number | undefined;
}

/** How the delivery of spans ended. `dropped`: not delivered, or there was no room for them. `rejected`: by the receiver. */
export type SpanResult = (typeof spanResults)[number];
export const spanResults = ['exported', 'dropped', 'rejected'] as const;

/** Everything that is observed: for metrics, status and log. */
export interface EventObserver extends KeySourceObserver, SigningObserver, CurrentKeyObserver {
  /**
   * A reload replaced the key source; what is known of it concerns the previous one.
   *
   * @param source `vault` or `directory`
   */
  keySourceReplaced(source: string): void;
  /** A client connection was closed because `proxy.maxConnections` was reached. */
  connectionRejected(): void;
  /** A request that was rejected before its caller was known has no log line, because of the rate limit. */
  logLineSuppressed(): void;
  /** Once per request, whatever its result. */
  requestFinished(context: RequestContext): void;
  gatewayResponded(response: GatewayResponseEvent): void;
  /** An upstream request had no connection to the gateway. */
  gatewayUnreachable(failure: Route & { readonly cause: NetworkFailure }): void;
  signed(method: MethodName, seconds: number): void;
  signingQueueChanged(depth: number): void;
  tlsConnected(end: TlsEnd, session: TlsSession): void;
  tlsFailed(end: TlsEnd, problem: TlsProblem): void;
  /** The configuration was loaded or reloaded. @param problem why not all of the file is in effect */
  configLoaded(problem?: string): void;
  /** @param issuer name in the configuration; `undefined` if the token has none of those */
  jwtVerified(issuer: string | undefined, result: JwtResult): void;
  /** @param head the newest record of the audit trail */
  auditRecordsWritten(head: AuditHead): void;
  /** Records of the audit trail that could neither be written nor kept. */
  auditRecordsLost(count: number): void;
  /** Rejected requests without a record, because of the rate limit. */
  auditRecordsOmitted(count: number): void;
  /** Whether records can be written; if not, `cause` says why. */
  auditUp(up: boolean, cause?: string): void;
  /** A claim of an order ID was tried. */
  claimMade(environment: string, seconds: number): void;
  /** Whether the store of claims responds; if not, `cause` says why. */
  claimStoreUp(up: boolean, cause?: string): void;
  spansCounted(result: SpanResult, count: number): void;
  authorizationDecided(caller: string, decision: AuthorizationDecision): void;
}

/** Our end of TLS connections. */
export interface TlsEnd {
  readonly role: TlsUser['role'] | 'jwt-issuer';
  /** For `gateway`. */
  readonly environment?: string;
}
