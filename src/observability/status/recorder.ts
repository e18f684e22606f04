import { responsibleParty } from '../../errors.ts';
import { isPaymentServerError, isRejection, isUncertainPayment } from '../../gateway/response.ts';
import type { RequestContext } from '../../request-context.ts';
import { isoTime, type MonotonicClock, type WallClock, type WallTimes, wallTimes } from '../../util/clock.ts';
import type { EventObserver, GatewayResponseEvent } from '../events.ts';
import { anchorOf, conditions, sectionOf, sectionOfCause } from './conditions.ts';
import type { FailedRequest, FailureCause, StatusFacts, UncertainPayment } from './facts.ts';
import { createKeySourceRecorder, setBounded } from './key-source-recorder.ts';
import { RequestWindow, type Verdict } from './request-window.ts';
import { isNoKey, maxFailures, maxUncertainPayments } from './thresholds.ts';

/** Milliseconds. */
const recent = 60_000;

/** The last used logins. */
const maxLogins = 1_000;

/** Of those that the gateway rejects. */
const maxRejectedNames = 5;

/** Those of unknown callers: anybody can cause them, and they must not hide the others. */
const maxUnknownCallers = 20;
/** Of each environment. */
const maxMismatches = 20;
/** How long they are kept, in milliseconds. */
const uncertainAge = 3_600_000;

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
  const shown = wallTimes(clocks);
  const keySource = createKeySourceRecorder(clocks, shown);
  /** Why the last signature in Vault failed, by environment; there are no others than those of the configuration. */
  const signingProblems = new Map<string, string>();
  const detailOf = (context: RequestContext): string | undefined => {
    const { reason, environment = '', login = '', unreachable, tlsAlert, keyKind, gatewayStatus } = context;
    if (reason === 'gateway-unreachable') return unreachable;
    if (reason === 'gateway-reset') return tlsAlert;
    if (reason === undefined) return gatewayStatus?.toString();
    if (reason === 'key-missing' || reason === 'key-unusable') return keyKind;
    if (reason === 'signing-unavailable') return signingProblems.get(environment);
    if (reason !== 'key-source-unavailable') return undefined;
    return keySource.readProblem({ environment, login }) ?? keySource.keySource().problem ?? undefined;
  };
  const { useNames, ...requests } = createRequestRecorder(clocks, shown, detailOf);
  let audit: StatusFacts['audit'] = null;
  let claims: StatusFacts['claims'] = null;
  let config = { digest: '', loadedAt: '', reloadFailed: false };
  /** Keeps what is known of the names that a reloaded configuration still has. */
  const reconfigure = (next: Configured): void => {
    useNames(next.config);
    config = { ...config, digest: next.digest, loadedAt: isoTime(clocks.clock()) };
  };
  reconfigure(loaded);
  return {
    ...requests,
    reconfigure,
    ...keySource,
    transitSigned: ((environment, _result, _seconds, problem) => {
      if (problem !== undefined) signingProblems.set(environment, problem);
    }) satisfies EventObserver['transitSigned'],
    audit: () => audit,
    auditUp(up: boolean, cause?: string): void {
      audit = { up, problem: up ? null : (cause ?? null) };
    },
    claims: () => claims,
    claimStoreUp(up: boolean, cause?: string): void {
      claims = { up, problem: up ? null : (cause ?? null) };
    },
    /** The configuration in effect. */
    config: () => config,
    configLoaded(successful: boolean): void {
      config = { ...config, reloadFailed: !successful };
    },
  };
}

interface Caller {
  readonly name: string;
  requests: number;
  denied: number;
  limited: number;
  /** Monotonic, milliseconds. */
  limitedAt: number | undefined;
  /** Monotonic, milliseconds. */
  lastSeenAt: number | undefined;
}

type DetailOf = (context: RequestContext) => string | undefined;
function createRequestRecorder(clocks: Clocks, shown: WallTimes, detailOf: DetailOf) {
  const { monotonic } = clocks;
  let environments = new Map<string, ReturnType<typeof createEnvironment>>();
  let callers = new Map<string, Caller>();
  const { recordFailure, recordMismatch, ...failures } = createFailureRecorder(clocks, shown);
  const newEnvironment = () => createEnvironment(clocks, shown, detailOf);
  return {
    ...failures,
    requestFinished(context: RequestContext): void {
      const { environment = '', caller = '', reason } = context;
      environments.get(environment)?.finished(context);
      const now = monotonic();
      const known = callers.get(caller);
      if (known !== undefined) {
        known.requests += 1;
        if (reason === 'not-allowed') known.denied += 1;
        if (reason === 'caller-limit') {
          known.limited += 1;
          known.limitedAt = now;
        }
        known.lastSeenAt = now;
      }
      if (isFailed(context)) recordFailure(context);
      recordMismatch(context);
    },
    gatewayResponded: (response: GatewayResponseEvent): void =>
      environments.get(response.environment)?.responded(response),
    /** Drops the names that are not in the configuration. */
    useNames: (config: Configured['config']): void => {
      environments = mapOf(Object.keys(config.environments), environments, newEnvironment);
      const names = config.callers.map(({ name }) => name);
      callers = mapOf(names, callers, newCaller);
    },
    /** Whether the gateway rejected this login the last time, and something else than its key explains that. */
    isExplained: (environment: string, login: string): boolean =>
      environments.get(environment)?.isExplained(login) === true,
    /** One that is not known had no requests. */
    environment: (name: string) => (environments.get(name) ?? newEnvironment()).status(),
    callers: () =>
      Array.from(callers.values(), ({ limitedAt, lastSeenAt, ...caller }) => ({
        ...caller,
        limitedAt: shown(limitedAt),
        lastSeenAt: shown(lastSeenAt),
      })),
  };
}

/** Keeps what is known of these names. */
function mapOf<T>(
  names: readonly string[],
  known: ReadonlyMap<string, T>,
  create: (name: string) => T,
): Map<string, T> {
  return new Map(names.map((name) => [name, known.get(name) ?? create(name)]));
}

function newCaller(name: string): Caller {
  return { name, requests: 0, denied: 0, limited: 0, limitedAt: undefined, lastSeenAt: undefined };
}

function createEnvironment({ monotonic }: MonotonicClock, shown: WallTimes, detailOf: DetailOf) {
  const window = new RequestWindow(monotonic());
  /** What the gateway said to the last request of each login. Distinguishes a bad key from a blocked instance. */
  const logins = new Map<string, { readonly at: number; readonly rejected: boolean }>();
  let skew: { readonly at: number; readonly seconds: number } | undefined;
  /** A login that was rejected before this time may have a good key. */
  let explainedUntil = Number.NEGATIVE_INFINITY;
  /** In the last minute. */
  const heard = (now: number) => {
    const counts = { accepted: 0, rejected: 0 };
    for (const { at, rejected } of logins.values())
      if (now - at < recent) counts[rejected ? 'rejected' : 'accepted'] += 1;
    const clockSkew = skew !== undefined && now - skew.at < recent ? skew.seconds : null;
    return { logins: counts, clockSkew };
  };
  return {
    finished(context: RequestContext): void {
      const { startedAt, durations, login = null, keyRejected } = context;
      const { total = 0 } = durations;
      const endedAt = startedAt + total * 1000;
      const verdict = verdictOn(context);
      const failure =
        verdict === 'failed'
          ? { cause: causeOf(context), detail: detailOf(context) ?? null, login }
          : undefined;
      window.recordRequest(endedAt, total, verdict, failure);
      if (login === null || keyRejected === undefined) return;
      setBounded(logins, login, { at: endedAt, rejected: keyRejected }, maxLogins);
      if (keyRejected && isNoKey(heard(endedAt))) explainedUntil = endedAt;
    },
    responded(response: GatewayResponseEvent): void {
      const now = monotonic();
      window.recordResponse(now, isRejection(response.status));
      if (response.clockSkew !== undefined) skew = { at: now, seconds: response.clockSkew };
    },
    isExplained(login: string): boolean {
      const { at, rejected } = logins.get(login) ?? { at: 0, rejected: false };
      return rejected && at <= explainedUntil;
    },
    /** Of the last minute. */
    status() {
      const now = monotonic();
      const { failures, ...summary } = window.summary(now);
      const { logins: counts, clockSkew } = heard(now);
      const rejected = [...logins].filter(([, one]) => one.rejected && now - one.at < recent);
      const rejectedNames = rejected.slice(-maxRejectedNames).map(([login]) => login);
      return {
        ...summary,
        failures: failures.map((one) => ({ ...one, lastAt: shown(one.lastAt) })),
        logins: { ...counts, rejectedNames: rejectedNames.toReversed() },
        clockSkew,
      };
    },
  };
}

/** Something and when it was: monotonic, milliseconds. */
interface Entry<T> {
  readonly at: number;
  readonly what: T;
}

type Untimed<T> = Omit<T, 'at'>;
type Mismatch = StatusFacts['orderMismatches'][number];

function createFailureRecorder({ monotonic }: MonotonicClock, shown: WallTimes) {
  const known: Entry<Untimed<FailedRequest>>[] = [];
  const unknown: Entry<Untimed<FailedRequest>>[] = [];
  /** By environment, so that none hides the payments of another. */
  const uncertain = new Map<string, Entry<Untimed<UncertainPayment>>[]>();
  const mismatched = new Map<string, Entry<Untimed<Mismatch>>[]>();
  const add = <T>(entries: Entry<T>[], what: T, max: number): void => {
    entries.push({ at: monotonic(), what });
    if (entries.length > max) entries.shift();
  };
  const newestFirst = <T>(entries: readonly Entry<T>[], age = Number.POSITIVE_INFINITY) => {
    const oldest = monotonic() - age;
    const sorted = entries.toReversed().toSorted((one, other) => other.at - one.at);
    return sorted.flatMap(({ at, what }) => (at < oldest ? [] : [{ at: shown(at), ...what }]));
  };
  return {
    recordMismatch: (context: RequestContext): void => {
      const { id: requestId, environment = '', operation = '', login = null, orderMismatch: field } = context;
      if (field === undefined) return;
      const mismatch = { requestId, environment, operation, login, field };
      add(listOf(mismatched, environment), mismatch, maxMismatches);
    },
    /** Newest first. */
    orderMismatches: (): Mismatch[] => newestFirst([...mismatched.values()].flat(), uncertainAge),
    recordFailure: (context: RequestContext): void => {
      const { caller, environment = '' } = context;
      if (isUncertainPayment(context))
        add(listOf(uncertain, environment), paymentOf(context), maxUncertainPayments);
      if (caller === undefined) add(unknown, failureOf(context), maxUnknownCallers);
      else add(known, failureOf(context), maxFailures);
    },
    /** Newest first. */
    failures: (): FailedRequest[] => newestFirst([...unknown, ...known]).slice(0, maxFailures),
    /** Payments of the last hour whose outcome is not known, newest first. */
    uncertainPayments: (): UncertainPayment[] => newestFirst([...uncertain.values()].flat(), uncertainAge),
  };
}

function listOf<T>(lists: Map<string, T[]>, name: string): T[] {
  const list = lists.get(name) ?? [];
  lists.set(name, list);
  return list;
}

/** Whether Countersign or the gateway responded with an error, or there was no response. */
function isFailed({ reason, gatewayStatus = 0 }: RequestContext): boolean {
  return reason !== undefined || gatewayStatus >= 400;
}

/** Copies what is shown, so that the rest of the request is not kept. */
function failureOf(context: RequestContext): Untimed<FailedRequest> {
  const { status = null } = context;
  const cause = causeOf(context);
  return { ...paymentOf(context), status, cause, runbookSection: sectionFor(context, cause) };
}

function paymentOf(context: RequestContext): Untimed<UncertainPayment> {
  const {
    id: requestId,
    caller = null,
    environment = null,
    operation = null,
    login = null,
    outcome,
  } = context;
  const { orderId = null, statusPath = null } = isUncertainPayment(context) ? context : {};
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
