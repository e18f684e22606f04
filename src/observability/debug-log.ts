import { AsyncLocalStorage } from 'node:async_hooks';
import type { VerifiedCredential } from '../auth/authenticate.ts';
import type { LoginRef } from '../keys/login-ref.ts';
import type { UsableKey } from '../keys/ring.ts';
import type { RequestRecord } from '../request-context.ts';
import type { EventObserver } from './events.ts';
import { type DebugFields, type Logger, milliseconds } from './logger.ts';

/** What identifies a verified credential, of whichever kind. */
const identity = [
  'tokenHash',
  'certificateName',
  'certificateFingerprint',
  'issuer',
  'subject',
  'keyId',
  'tokenId',
] as const;

type Identified = Pick<VerifiedCredential, 'kind'> &
  Readonly<Partial<Record<(typeof identity)[number], string | undefined>>>;

/**
 * What was decided for a request, and why: the lines of level `debug`. Each field is named here, so that none can hold a
 * secret: what identifies a verified credential, configured names, closed values and numbers; a login only if granted.
 */
export type DebugLog = NonNullable<ReturnType<typeof createDebugLog>>;

/** Gives `undefined` at every level but `debug`, so that a decision costs nothing there. */
export function createDebugLog({ debug }: Pick<Logger, 'debug'>) {
  if (debug === undefined) return undefined;
  const requests = new AsyncLocalStorage<string>();
  const write = (message: string, fields: DebugFields): void => {
    debug(message, { requestId: requests.getStore(), ...fields });
  };
  return {
    /** Every line that is written in `work`, and in what it starts, has the ID of the request. */
    forRequest: <T>(requestId: string, work: () => T): T => requests.run(requestId, work),
    callerAuthenticated(caller: string, credential: Identified): void {
      const names = Object.fromEntries(identity.map((name) => [name, credential[name]]));
      write('caller authenticated', { caller, credential: credential.kind, ...names });
    },
    requestRouted: ({ caller, environment, operation, readOnly, login }: RequestRecord) =>
      write('request routed', { caller, environment, operation, readOnly, login }),
    keySelected: (
      { environment, login }: LoginRef,
      operation: string,
      { kind: keyKind, version: keyVersion }: UsableKey,
    ) => write('key selected', { environment, operation, login, keyKind, keyVersion }),
    /** The keys of a login are read past the cache, since the gateway rejected one of them. */
    keysRefreshed: ({ environment, login }: LoginRef) =>
      write('keys refreshed after a rejection', { environment, login }),
    /** `written`: perhaps; `stalePool`: a pooled connection broke before any byte of a response. */
    attemptFailed: (
      operation: string,
      { reason, written, stalePool }: Readonly<{ reason: string; written: boolean; stalePool: boolean }>,
    ) => write('upstream request failed', { operation, reason, written, stalePool }),
    /** @param delay milliseconds */
    retryScheduled: (operation: string, delay: number) =>
      write('upstream request retried', { operation, delayMs: Math.round(delay) }),
    observer: createObserver(write),
  };
}

/** Writes a line for an event that is a decision or the result of one. */
function createObserver(write: (message: string, fields: DebugFields) => void): Partial<EventObserver> {
  return {
    authorizationDecided: (caller, decision) => write('authorization decided', { caller, decision }),
    gatewayResponded: ({ environment, operation, status, seconds, clockSkew }) =>
      write('gateway responded', {
        environment,
        operation,
        status,
        clockSkewSeconds: clockSkew,
        ms: milliseconds(seconds),
      }),
    gatewayUnreachable: ({ environment, operation, cause }) =>
      write('gateway unreachable', { environment, operation, cause }),
    currentKeyChanged: ({ environment, login }, kind, from, to) =>
      write('current key changed', { environment, login, keyKind: kind, from, to }),
    keyLookup: (environment, result) => write('key lookup', { environment, result }),
    keyFetched: (source, seconds) => write('key source read', { source, ms: milliseconds(seconds) }),
  };
}
