import type { KeySourceObserver, LostKey, RingRemoval, TransitResult } from '../keys/key-source.ts';
import type { LoginRef } from '../keys/login-ref.ts';
import type { KeyRing } from '../keys/ring.ts';
import { type MonotonicClock, setTimer } from '../util/clock.ts';
import type { EventObserver } from './events.ts';
import type { Logger } from './logger.ts';
import { createOutageLog, createSteadyState, type SteadyState } from './outages.ts';

type MessageLog = Pick<Logger, 'message'>;

interface KeyLogOptions extends MonotonicClock {
  readonly log: MessageLog;
  /** The configured source: `vault` or `directory`. */
  readonly source: string;
}

const outageMessages = { failed: 'key source unavailable', recovered: 'key source available again' };

const denialMessages = {
  failed: 'key source denies reading keys',
  recovered: 'key source permits reading keys again',
};

const signingMessages = { failed: 'Vault does not sign', recovered: 'Vault signs again' };

/** Logs what happens to keys and their source, since an operator must act on it. */
export function createKeyLog({ log, monotonic, source }: KeyLogOptions) {
  const logsOf = (name: string) => ({
    outage: createOutageLog({ log, monotonic, source: name, messages: outageMessages }),
    denial: createOutageLog({ log, monotonic, source: name, messages: denialMessages }),
    signing: createSigningLog({ log, monotonic }),
    loginsNotFound: createNotFoundLog(log),
  });
  let current = logsOf(source);
  return {
    keySourceReplaced(next) {
      current.loginsNotFound(0);
      current = logsOf(next);
    },
    keyRingUpdated(login, ring, removal = 'deleted', lost = []) {
      if (ring === undefined) logRemoval(log, login, removal);
      else logRing(log, login, ring, lost);
    },
    loginsNotFound: (count, login) => current.loginsNotFound(count, login),
    keySourceUp: (up, cause) => current.outage(up, cause),
    loginsDenied: (logins, cause) => current.denial(logins === 0, cause),
    transitSigned: (environment, result, _seconds, problem) => current.signing(environment, result, problem),
    loginFailed: (problem) => current.outage(false, problem),
    keyProblem: (problem, login) => log.message('error', problem, { ...login }),
  } satisfies Partial<EventObserver>;
}

/** An outage of each environment. What concerns the key of one login is logged when that is read again. */
function createSigningLog({ log, monotonic }: Omit<KeyLogOptions, 'source'>) {
  const environments = new Map<string, SteadyState>();
  const stateOf = (environment: string): SteadyState => {
    const known = environments.get(environment);
    if (known !== undefined) return known;
    const report = createOutageLog({ log, monotonic, source: environment, messages: signingMessages });
    const state = createSteadyState({ monotonic, setTimer, report });
    environments.set(environment, state);
    return state;
  };
  return (environment: string, result: TransitResult, problem = 'unknown'): void => {
    if (result === 'ok') stateOf(environment).responded();
    if (result === 'unavailable' || result === 'denied') stateOf(environment).failed(problem);
  };
}

/** A store that lost all its logins is one problem: a line for the first, and whenever their number has doubled. */
function createNotFoundLog(log: MessageLog): KeySourceObserver['loginsNotFound'] {
  let reported = 0;
  return (count, login) => {
    if (login !== undefined && count >= 2 * reported) {
      log.message('error', 'login not found in the key source; its cached keys are used', {
        ...login,
        logins: count,
      });
      reported = count;
    }
    if (count > 0 || reported === 0) return;
    log.message('info', 'no login with cached keys is missing in the key source any more');
    reported = 0;
  };
}

/** The newest version of a secret that lacks a key which the one before had was hardly meant so. */
function logRing(log: MessageLog, login: LoginRef, ring: KeyRing, lost: readonly LostKey[]): void {
  const versions = ring.map(({ kind, version }) => `${kind} ${version}`).join(', ');
  if (lost.length === 0) log.message('info', 'keys updated', { ...login, versions });
  for (const { kind, version } of lost) {
    log.message('warn', 'key missing in the key source', { ...login, kind, version });
  }
  for (const entry of ring) {
    if ('problem' in entry && entry.supersededAt === undefined)
      log.message('error', entry.problem, { ...login, kind: entry.kind, version: entry.version });
  }
}

/** Requests of a login without keys fail. A ring that leaves the cache is harmless. */
function logRemoval(log: MessageLog, login: LoginRef, removal: RingRemoval): void {
  if (removal === 'deleted') log.message('warn', 'keys deleted in the key source', { ...login });
  else log.message('info', 'keys removed from the cache', { ...login, cause: removal });
}
