import type { KeyFallbackObserver } from '../keys/key-retry.ts';
import type { KeySourceObserver } from '../keys/key-source.ts';
import type { MethodName } from '../oauth1/methods.ts';
import type { RequestContext } from '../request-context.ts';
import type { TlsUser } from '../tls/files.ts';
import type { Validity } from '../tls/material.ts';
import type { NetworkFailure } from '../util/network-failure.ts';

/** One reply of the gateway, retries counted one by one. Durations in seconds. */
export interface GatewayResponseEvent {
  readonly environment: string;
  readonly operation: string;
  readonly status: number;
  readonly seconds: number;
  /** Gateway's clock minus ours in seconds, from its `Date` header; absent where it sent none. */
  readonly clockSkew?: number;
}

/** One attempt at the gateway for which no connection could be made. */
export interface GatewayUnreachableEvent {
  readonly environment: string;
  readonly operation: string;
  readonly cause: NetworkFailure;
}

/** The port to the metrics: what happened, in the domain's words. Implemented by ops/prometheus. */
export interface MetricsObserver extends KeySourceObserver, KeyFallbackObserver {
  /** A caller's connection was closed at once, since as many as are bearable were open. */
  connectionRejected(): void;
  /** A request that was rejected before its caller was known has no log line, since there were too many. */
  logLineSuppressed(): void;
  upstreamStarted(environment: string): void;
  /** Balances {@link upstreamStarted}. */
  upstreamFinished(environment: string): void;
  /** Once per exchange, whatever happened to it. */
  requestFinished(exchange: RequestContext): void;
  gatewayResponded(reply: GatewayResponseEvent): void;
  gatewayUnreachable(failure: GatewayUnreachableEvent): void;
  signed(method: MethodName, seconds: number): void;
  signingQueueChanged(depth: number): void;
  logLinesDropped(lines: number): void;
  /** From now on this one is in use. */
  certificateLoaded(certificate: CertificateInUse, validity: Validity): void;
  /** Those of this user are not in use any more. */
  certificateRemoved(user: TlsUser): void;
  /** A read-only query was sent ahead of a payment. */
  canarySent(environment: string, result: CanaryResult): void;
  /**
   * The configuration was loaded at the start, or again.
   *
   * @param successful whether all of it is in effect
   * @param at seconds since 1970
   */
  configLoaded(successful: boolean, at: number): void;
  authorizationDecided(caller: string, decision: AuthorizationDecision): void;
}

/** A certificate chain that is shown, or CAs that are trusted. */
export interface CertificateInUse extends TlsUser {
  readonly part: 'cert' | 'ca';
}

/** `switched`: the gateway rejected the key and accepted another one. `failed`: there was no clear response. */
export type CanaryResult = 'accepted' | 'switched' | 'rejected' | 'failed';

/** `would-deny`: a caller in report mode that `enforce` would have refused. */
export type AuthorizationDecision = 'allowed' | 'refused' | 'would-deny';
