import { AsyncLocalStorage } from 'node:async_hooks';
import type { VerifiedCredential } from '../auth/verified-credential.ts';
import type { KeyUse } from '../keys/key-history.ts';
import type { KeySourceObserver, LoginRef } from '../keys/key-source.ts';
import type { SelectionReason } from '../keys/selection-reason.ts';
import type { RequestFacts } from '../request-context.ts';
import type { DebugFields, Logger } from './logger.ts';
import type { MetricsObserver } from './metrics-observer.ts';

/** What is known of an upstream request without a usable response. */
export interface AttemptFailure {
  readonly reason: string;
  /** Whether a byte may have been written. */
  readonly written: boolean;
  /** Whether a pooled connection broke before any byte of a response. */
  readonly stalePool: boolean;
}

/** What was decided for a request, and why: the lines of level `debug`. None of them can hold a secret. */
export interface DecisionLog {
  /** Every line that is written in `work`, and in what it starts, has the ID of the request. */
  forRequest<T>(requestId: string, work: () => T): T;
  callerAuthenticated(caller: string, credential: VerifiedCredential): void;
  /** @param login only after the caller was authorized to use it */
  requestRouted(facts: RequestFacts, login: string): void;
  keySelected(login: LoginRef, use: KeyUse, reason: SelectionReason): void;
  /** The keys of a login are read past the cache, since the gateway rejected one of them. */
  keysRefreshed(login: LoginRef): void;
  attemptFailed(operation: string, failure: AttemptFailure): void;
  /** @param delay milliseconds */
  retryScheduled(operation: string, delay: number): void;
  /** The same observer, which also writes a line for what is a decision or the result of one. */
  observe(metrics: MetricsObserver): MetricsObserver;
}

/** Gives `undefined` at every level but `debug`, so that a decision costs nothing there. */
export function createDecisionLog({ debug }: Pick<Logger, 'debug'>): DecisionLog | undefined {
  if (debug === undefined) return undefined;
  const requests = new AsyncLocalStorage<string>();
  const write = (message: string, fields: DebugFields): void => {
    debug(message, { requestId: requests.getStore(), ...fields });
  };
  return {
    forRequest: (requestId, work) => requests.run(requestId, work),
    callerAuthenticated: (caller, { kind, ...identity }) =>
      write('caller authenticated', { caller, credential: kind, ...identity }),
    requestRouted: ({ caller, environment, operation, readOnly }, login) =>
      write('request routed', { caller, environment, operation, readOnly, login }),
    keySelected: ({ environment, login }, { operation, key: { kind, version } }, reason) =>
      write('key selected', { environment, login, operation, keyKind: kind, keyVersion: version, reason }),
    keysRefreshed: ({ environment, login }) => write('keys refreshed after a 403', { environment, login }),
    attemptFailed: (operation, { reason, written, stalePool }) =>
      write('upstream request failed', { operation, reason, written, stalePool }),
    retryScheduled: (operation, delay) =>
      write('upstream request retried', { operation, delayMs: Math.round(delay) }),
    observe: (metrics) => ({ ...metrics, ...decisionsOf(metrics, write), ...keyDecisionsOf(metrics, write) }),
  };
}

type Write = (message: string, fields: DebugFields) => void;

function decisionsOf(metrics: MetricsObserver, write: Write): Partial<MetricsObserver> {
  return {
    authorizationDecided(caller, decision) {
      write('authorization decided', { caller, decision });
      metrics.authorizationDecided(caller, decision);
    },
    gatewayResponded(event) {
      const { environment, operation, status, seconds, clockSkew } = event;
      const ms = milliseconds(seconds);
      write('gateway responded', { environment, operation, status, clockSkewSeconds: clockSkew, ms });
      metrics.gatewayResponded(event);
    },
    gatewayUnreachable(event) {
      const { environment, operation, cause } = event;
      write('gateway unreachable', { environment, operation, cause });
      metrics.gatewayUnreachable(event);
    },
    canarySent(environment, result) {
      write('canary sent', { environment, result });
      metrics.canarySent(environment, result);
    },
    keyFallback(login, kind, to) {
      write('key fallback', { environment: login.environment, login: login.login, keyKind: kind, to });
      metrics.keyFallback(login, kind, to);
    },
  };
}

function keyDecisionsOf(metrics: MetricsObserver, write: Write): Partial<KeySourceObserver> {
  return {
    keyLookup(environment, result) {
      write('key lookup', { environment, result });
      metrics.keyLookup(environment, result);
    },
    keyFetched(source, seconds) {
      write('key source read', { source, ms: milliseconds(seconds) });
      metrics.keyFetched(source, seconds);
    },
  };
}

function milliseconds(seconds: number): number {
  return Math.round(seconds * 1e6) / 1e3;
}
