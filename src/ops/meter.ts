import type { Exchange } from '../exchange.ts';
import type { KeyAddress, KeyEvents } from '../keys/source.ts';
import type { KeyKind, MethodName } from '../oauth1/methods.ts';
import type { TlsUser } from '../tls/files.ts';
import type { Validity } from '../tls/material.ts';
import type { NetworkFailure } from '../util/network-failure.ts';

/** One reply of the gateway, retries counted one by one. Durations in seconds. */
export interface GatewayReplySeen {
  readonly environment: string;
  readonly operation: string;
  readonly status: number;
  readonly seconds: number;
  /** Gateway's clock minus ours in seconds, from its `Date` header; absent where it sent none. */
  readonly clockSkew?: number;
}

/** One attempt at the gateway for which no connection could be made. */
export interface GatewayUnreachable {
  readonly environment: string;
  readonly operation: string;
  readonly cause: NetworkFailure;
}

/** The port to the metrics: what happened, in the domain's words. Implemented by ops/prometheus. */
export interface Meter extends KeyEvents {
  /** A caller's connection was closed at once, since as many as are bearable were open. */
  connectionDropped(): void;
  /** A request that was rejected before its caller was known has no log line, since there were too many. */
  logLineSuppressed(): void;
  exchangeBegan(environment: string): void;
  /** Balances {@link exchangeBegan}. */
  exchangeLeft(environment: string): void;
  /** Once per exchange, whatever happened to it. */
  exchangeEnded(exchange: Exchange): void;
  gatewayReplied(reply: GatewayReplySeen): void;
  gatewayUnreachable(failure: GatewayUnreachable): void;
  signed(method: MethodName, seconds: number): void;
  signingQueue(depth: number): void;
  /** A request the gateway refused was signed again with another version and accepted. */
  fellBack(address: KeyAddress, kind: KeyKind, to: 'newer' | 'older'): void;
  logLinesDropped(lines: number): void;
  /** From now on this one is in use. */
  certificateLoaded(certificate: CertificateInUse, validity: Validity): void;
  /** Those of this user are not in use any more. */
  certificateGone(user: TlsUser): void;
  /** A read-only query was sent ahead of a payment. */
  canarySent(environment: string, result: CanaryResult): void;
  /**
   * The configuration was loaded at the start, or again.
   *
   * @param successful whether all of it is in effect
   * @param at seconds since 1970
   */
  configLoaded(successful: boolean, at: number): void;
  policyDecided(caller: string, decision: PolicyDecision): void;
}

/** A certificate chain that is shown, or CAs that are trusted. */
export interface CertificateInUse extends TlsUser {
  readonly part: 'cert' | 'ca';
}

/** `switched`: the gateway rejected the key and accepted another one. `failed`: there was no clear response. */
export type CanaryResult = 'accepted' | 'switched' | 'rejected' | 'failed';

/** `would-refuse`: a caller in report mode that `enforce` would have refused. */
export type PolicyDecision = 'allowed' | 'refused' | 'would-refuse';
