import { responsibleParty } from '../../errors.ts';
import { isPaymentServerError, isRejection, isUncertainPayment } from '../../gateway/response.ts';
import type { RequestContext } from '../../request-context.ts';
import { type MonotonicClock, type WallClock, type WallTimes, wallTimes } from '../../util/clock.ts';
import type { EventObserver, GatewayResponseEvent } from '../events.ts';
import { anchorOf, conditions, sectionOf, sectionOfCause } from './conditions.ts';
import type { FailedRequest, FailureCause, StatusFacts, UncertainPayment } from './facts.ts';
import { createKeySourceRecorder, setBounded } from './key-source-recorder.ts';
import { RequestWindow, type Verdict } from './request-window.ts';
import { isNoKey, maxFailures, maxUncertainPayments } from './thresholds.ts';

/** Milliseconds. */
const [minute, hour] = [60_000, 3_600_000];

/** The last used logins of an environment. */
const maxLogins = 1_000;

/** Of those that the gateway rejects. */
const maxRejectedNames = 5;

/** Failed requests of unknown callers: anybody can cause them, and they must not hide the others. */
const maxUnknownCallers = 20;

/** Of each environment. */
const maxMismatches = 20;

/** What counts of a configuration. */
interface Configured {
  readonly config: {
    readonly environments: Readonly<Record<string, unknown>>;
    readonly callers: readonly { readonly name: string }[];
  };
  /** Of the file. */
  readonly digest: string;
}

type Clocks = WallClock & MonotonicClock;

export type StatusRecorder = ReturnType<typeof createStatusRecorder>;

/**
 * Remembers what the status shows, as it shows it. Its memory is bounded, and an event costs much less than a request.
 */
export function createStatusRecorder(loaded: Configured, clocks: Clocks) {
  const { monotonic } = clocks;
  const shown = wallTimes(clocks);
  const keySource = createKeySourceRecorder(clocks, shown);
  const instance = createInstanceRecorder(clocks, shown);
  const requests = createLists(clocks, shown);
  let environments = new Map<string, Environment>();
  let callers = new Map<string, Caller>();
  /** Why the last signature in Vault failed, by environment; there are no others than those of the configuration. */
  const signingProblems = new Map<string, string>();
  const detailOf = (context: RequestContext): string | null | undefined => {
    const { reason, environment = '', login = '', unreachable, tlsAlert, keyKind, limit } = context;
    if (reason === 'gateway-unreachable') return unreachable;
    if (reason === 'gateway-reset') return tlsAlert;
    if (reason === 'overloaded') return limit;
    if (reason === undefined) return context.gatewayStatus?.toString();
    if (reason === 'key-missing' || reason === 'key-unusable') return keyKind;
    if (reason === 'signing-unavailable') return signingProblems.get(environment);
    if (reason !== 'key-source-unavailable') return null;
    return keySource.readProblem({ environment, login }) ?? keySource.keySource().problem;
  };
  const newEnvironment = () => new Environment(monotonic());
  /** Keeps what is known of the names that a reloaded configuration still has. */
  const reconfigure = ({ config, digest }: Configured): void => {
    const names = config.callers.map(({ name }) => name);
    environments = mapOf(Object.keys(config.environments), environments, newEnvironment);
    callers = mapOf(names, callers, newCaller);
    instance.useFile(digest);
  };
  reconfigure(loaded);
  return {
    ...keySource,
    ...instance,
    reconfigure,
    requestFinished(context: RequestContext): void {
      const { environment = '', caller = '', reason } = context;
      environments.get(environment)?.finished(context, detailOf);
      const known = callers.get(caller);
      if (known !== undefined) count(known, reason, monotonic());
      requests.record(context);
    },
    gatewayResponded: (response: GatewayResponseEvent): void =>
      environments.get(response.environment)?.responded(response, monotonic()),
    transitSigned: ((environment, _result, _seconds, problem) => {
      if (problem !== undefined) signingProblems.set(environment, problem);
    }) satisfies EventObserver['transitSigned'],
    /** One that is not known had no requests. */
    environment: (name: string) => (environments.get(name) ?? newEnvironment()).status(monotonic(), shown),
    /** Whether the gateway rejected this login the last time, and something else than its key explains that. */
    isExplained: (environment: string, login: string): boolean =>
      environments.get(environment)?.isExplained(login) === true,
    caller(name: string) {
      const { limitedAt, lastSeenAt, ...counts } = callers.get(name) ?? newCaller();
      return { ...counts, limitedAt: shown(limitedAt), lastSeenAt: shown(lastSeenAt) };
    },
    /** Of the whole instance. */
    facts: () => ({ ...requests.lists(), ...instance.state() }),
  };
}

function createInstanceRecorder({ monotonic }: MonotonicClock, shown: WallTimes) {
  let audit: StatusFacts['audit'] = null;
  let claims: StatusFacts['claims'] = null;
  let file = { digest: '', loadedAt: monotonic() };
  let problem: string | null = null;
  return {
    auditUp(up: boolean, cause: string | null = null): void {
      audit = { up, problem: cause };
    },
    claimStoreUp(up: boolean, cause: string | null = null): void {
      claims = { up, problem: cause };
    },
    configLoaded(why: string | null = null): void {
      problem = why;
    },
    useFile(digest: string): void {
      file = { digest, loadedAt: monotonic() };
    },
    state: () => ({ audit, claims, config: { ...file, loadedAt: shown(file.loadedAt), problem } }),
  };
}

/** Failed requests, payments of unknown outcome, and responses about another order. */
function createLists(clocks: MonotonicClock, shown: WallTimes) {
  const failures = recent<Untimed<FailedRequest>>(clocks, shown);
  const payments = recent<Untimed<UncertainPayment>>(clocks, shown);
  const mismatches = recent<Untimed<StatusFacts['orderMismatches'][number]>>(clocks, shown);
  return {
    record(context: RequestContext): void {
      const { id: requestId, environment = '', operation = '', login = null, caller } = context;
      const { orderMismatch: field, reason, gatewayStatus = 0 } = context;
      if (field !== undefined)
        mismatches.add(environment, { requestId, environment, operation, login, field }, maxMismatches);
      // A response of the gateway that is no error.
      if (reason === undefined && gatewayStatus < 400) return;
      if (isUncertainPayment(context)) payments.add(environment, paymentOf(context), maxUncertainPayments);
      if (caller === undefined) failures.add('unknown caller', failureOf(context), maxUnknownCallers);
      else failures.add('', failureOf(context), maxFailures);
    },
    lists: () => ({
      failures: failures.newestFirst().slice(0, maxFailures),
      uncertainPayments: payments.newestFirst(hour),
      orderMismatches: mismatches.newestFirst(hour),
    }),
  };
}

/** Keeps what is known of these names. */
function mapOf<T>(names: readonly string[], known: ReadonlyMap<string, T>, create: () => T): Map<string, T> {
  return new Map(names.map((name) => [name, known.get(name) ?? create()]));
}

type Untimed<T> = Omit<T, 'at'>;

/** The last of something in each of several groups, so that none hides those of another. */
function recent<T>({ monotonic }: MonotonicClock, shown: WallTimes) {
  const groups = new Map<string, { readonly at: number; readonly what: T }[]>();
  return {
    /** @param max of the group */
    add(group: string, what: T, max: number): void {
      const entries = groups.get(group) ?? [];
      groups.set(group, entries);
      entries.push({ at: monotonic(), what });
      if (entries.length > max) entries.shift();
    },
    /** @param age milliseconds */
    newestFirst(age = Number.POSITIVE_INFINITY) {
      const oldest = monotonic() - age;
      const entries = [...groups.values()].flat().filter(({ at }) => at >= oldest);
      const sorted = entries.toReversed().toSorted((one, other) => other.at - one.at);
      return sorted.map(({ at, what }) => ({ at: shown(at), ...what }));
    },
  };
}

interface Caller {
  requests: number;
  denied: number;
  limited: number;
  /** Monotonic, milliseconds. */
  limitedAt: number | undefined;
  /** The same. */
  lastSeenAt: number | undefined;
}

function newCaller(): Caller {
  return { requests: 0, denied: 0, limited: 0, limitedAt: undefined, lastSeenAt: undefined };
}

function count(caller: Caller, reason: RequestContext['reason'], now: number): void {
  caller.requests += 1;
  caller.lastSeenAt = now;
  if (reason === 'not-allowed') caller.denied += 1;
  if (reason !== 'caller-limit') return;
  caller.limited += 1;
  caller.limitedAt = now;
}

/** What happened to the requests of an environment. Times are monotonic, in milliseconds. */
class Environment {
  readonly #window: RequestWindow;
  /** What the gateway said to the last request of each login. Distinguishes a bad key from a blocked instance. */
  readonly #logins = new Map<string, { readonly at: number; readonly rejected: boolean }>();
  #skew: { readonly at: number; readonly seconds: number } | undefined;
  /** A login that was rejected before this time may have a good key. */
  #explainedUntil = Number.NEGATIVE_INFINITY;

  constructor(startedAt: number) {
    this.#window = new RequestWindow(startedAt);
  }

  finished(context: RequestContext, detailOf: (context: RequestContext) => string | null | undefined): void {
    const { startedAt, durations, caller = null, operation = null, login = null, keyRejected } = context;
    const { total = 0 } = durations;
    const endedAt = startedAt + total * 1000;
    const verdict = verdictOn(context);
    const cause = verdict === 'rejected' ? verdict : causeOf(context);
    const isFailure = verdict === 'failed' || verdict === 'rejected';
    const failure = isFailure
      ? { cause, detail: detailOf(context) ?? null, caller, operation, login }
      : undefined;
    this.#window.recordRequest(endedAt, total, verdict, failure);
    if (login === null || keyRejected === undefined) return;
    setBounded(this.#logins, login, { at: endedAt, rejected: keyRejected }, maxLogins);
    if (keyRejected && isNoKey(this.#heard(endedAt))) this.#explainedUntil = endedAt;
  }

  responded({ clockSkew }: GatewayResponseEvent, now: number): void {
    if (clockSkew !== undefined) this.#skew = { at: now, seconds: clockSkew };
  }

  isExplained(login: string): boolean {
    const { at, rejected } = this.#logins.get(login) ?? { at: 0, rejected: false };
    return rejected && at <= this.#explainedUntil;
  }

  /** Of the last minute. */
  status(now: number, shown: WallTimes) {
    const { failures, ...summary } = this.#window.summary(now);
    const heard = this.#heard(now);
    // Once what explains rejections is over, they would be said of a key.
    const explainedUntil = isNoKey(heard) ? Number.NEGATIVE_INFINITY : this.#explainedUntil;
    const timed = failures
      .filter(({ cause, lastAt }) => cause !== 'rejected' || lastAt > explainedUntil)
      .map((one) => ({ ...one, since: shown(one.since), lastAt: shown(one.lastAt) }));
    return { ...summary, failures: timed, ...heard };
  }

  /** From the gateway in the last minute. */
  #heard(now: number) {
    const logins = [...this.#logins].filter(([, { at }]) => now - at < minute);
    const rejected = logins.flatMap(([login, one]) => (one.rejected ? [login] : []));
    const { at, seconds } = this.#skew ?? { at: Number.NEGATIVE_INFINITY, seconds: null };
    return {
      logins: {
        accepted: logins.length - rejected.length,
        rejected: rejected.length,
        rejectedNames: rejected.slice(-maxRejectedNames).toReversed(),
      },
      clockSkew: now - at < minute ? seconds : null,
    };
  }
}

/** Copies what is shown, so that the rest of the request is not kept. */
function failureOf(context: RequestContext): Untimed<FailedRequest> {
  const { status = null } = context;
  const cause = causeOf(context);
  return { ...paymentOf(context), status, cause, runbookSection: sectionFor(context, cause) };
}

function paymentOf(context: RequestContext): Untimed<UncertainPayment> {
  const { id: requestId, caller = null, environment = null, operation = null, login = null } = context;
  const { orderId = null, statusPath = null } = isUncertainPayment(context) ? context : {};
  const { outcome } = context;
  return { requestId, caller, environment, operation, login, orderId, statusPath, outcome };
}

/** A server error for a payment leaves its outcome uncertain, whatever its status. */
function sectionFor(context: RequestContext, cause: FailureCause): string | null {
  if (isPaymentServerError(context)) return anchorOf(sectionOf(conditions['outcome-unknown']));
  const isOfCaller = cause === 'gateway-status' && (context.gatewayStatus ?? 0) < 500;
  return isOfCaller ? null : anchorOf(sectionOfCause(cause));
}

/** What a request says of its environment. A status below 500 is a response of a gateway that works; a verified callback has none. */
function verdictOn(context: RequestContext): Verdict {
  const { reason, gatewayStatus } = context;
  if (['gateway', 'countersign'].includes(responsibleParty(context))) return 'failed';
  if (reason !== undefined || gatewayStatus === undefined) return 'neither';
  return isRejection(gatewayStatus) ? 'rejected' : 'succeeded';
}

/** `rejection` stays set if a retry got another response. */
function causeOf({ reason, gatewayStatus = 0, rejection }: RequestContext): FailureCause {
  if (reason !== undefined) return reason;
  return isRejection(gatewayStatus) ? (rejection ?? 'gateway-status') : 'gateway-status';
}
