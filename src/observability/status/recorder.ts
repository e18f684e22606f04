import { responsibleParty } from '../../errors.ts';
import { isPaymentServerError, isRejection, isUncertainPayment } from '../../gateway/response.ts';
import type { RequestContext } from '../../request-context.ts';
import { isoTime, type MonotonicClock, type WallClock } from '../../util/clock.ts';
import type { EventObserver, GatewayResponseEvent } from '../events.ts';
import { anchorOf, conditions, sectionOf, sectionOfCause } from './conditions.ts';
import type { FailedRequest, FailureCause, StatusFacts, UncertainPayment } from './facts.ts';
import { createKeySourceRecorder, createMissingKeyRecorder, setBounded } from './key-source-recorder.ts';
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
  const keySource = createKeySourceRecorder(clocks);
  const { keyWanted, forgetKeys, ...keys } = createMissingKeyRecorder(clocks);
  /** Why the last signature in Vault failed, by environment; there are no others than those of the configuration. */
  const signingProblems = new Map<string, string>();
  const detailOf = (context: RequestContext): string | undefined => {
    const { reason, environment = '', login = '', unreachable, tlsAlert, gatewayStatus } = context;
    if (reason === 'gateway-unreachable') return unreachable;
    if (reason === 'gateway-reset') return tlsAlert;
    if (reason === undefined) return gatewayStatus?.toString();
    if (reason === 'signing-unavailable') return signingProblems.get(environment);
    if (reason === 'key-missing') keyWanted({ environment, login });
    if (reason !== 'key-source-unavailable') return undefined;
    return keys.readProblem({ environment, login }) ?? keySource.keySource().problem ?? undefined;
  };
  const { useNames, ...requests } = createRequestRecorder(clocks, detailOf);
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
    ...keys,
    /** A reload changed the key source; what is known concerns the previous one. */
    keySourceReplaced(): void {
      keySource.keySourceReplaced();
      forgetKeys();
    },
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
  /** Milliseconds since 1970. */
  limitedAt: number | undefined;
  /** Milliseconds since 1970. */
  lastSeenAt: number | undefined;
}

type DetailOf = (context: RequestContext) => string | undefined;

function createRequestRecorder(clocks: Clocks, detailOf: DetailOf) {
  let environments = new Map<string, ReturnType<typeof createEnvironment>>();
  let callers = new Map<string, Caller>();
  const { recordFailure, recordMismatch, orderMismatches, ...failures } = createFailureRecorder(clocks);
  const newEnvironment = () => createEnvironment(clocks, detailOf);
  return {
    ...failures,
    orderMismatches: () => orderMismatches(clocks.clock()),
    requestFinished(context: RequestContext): void {
      const { environment = '', caller = '', reason } = context;
      const failed = isFailed(context);
      environments.get(environment)?.finished(context, failed);
      const now = clocks.clock();
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
      if (failed) recordFailure(context, now);
      recordMismatch(context, now);
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
        limitedAt: limitedAt === undefined ? null : isoTime(limitedAt),
        lastSeenAt: lastSeenAt === undefined ? null : isoTime(lastSeenAt),
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

function createEnvironment({ clock, monotonic }: Clocks, detailOf: DetailOf) {
  const window = new RequestWindow(monotonic());
  /** What the gateway said to the last request of each login. Distinguishes a bad key from a blocked instance. */
  const logins = new Map<string, { readonly at: number; readonly rejected: boolean }>();
  let skew: { readonly at: number; readonly seconds: number } | undefined;
  /** A login that was rejected before this time may have a good key. */
  let explainedUntil = Number.NEGATIVE_INFINITY;
  /** In the last minute. */
  const heard = (now: number) => {
    const verdicts = [...logins].filter(([, { at }]) => now - at < recent);
    const rejected = verdicts.flatMap(([login, verdict]) => (verdict.rejected ? [login] : []));
    return {
      logins: {
        accepted: verdicts.length - rejected.length,
        rejected: rejected.length,
        rejectedNames: rejected.slice(-maxRejectedNames).toReversed(),
      },
      clockSkew: skew !== undefined && now - skew.at < recent ? skew.seconds : null,
    };
  };
  return {
    finished(context: RequestContext, failed: boolean): void {
      const { startedAt, durations, login, keyRejected } = context;
      const { total = 0 } = durations;
      const endedAt = startedAt + total * 1000;
      const isOurs = failed && isOurFailure(context);
      window.recordRequest(endedAt, total, verdictOn(context, isOurs));
      if (isOurs) window.recordFailure(endedAt, causeOf(context), detailOf(context) ?? null, login ?? null);
      if (login === undefined || keyRejected === undefined) return;
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
      const toWall = clock() - now;
      const { failures, ...summary } = window.summary(now);
      return {
        ...summary,
        failures: failures.map((one) => ({ ...one, lastAt: isoTime(one.lastAt + toWall) })),
        ...heard(now),
      };
    },
  };
}

interface Failure {
  /** In the order of all of them, since the wall clock may be set back. */
  readonly number: number;
  /** Monotonic, milliseconds. */
  readonly at: number;
  readonly failure: FailedRequest;
}

function createFailureRecorder({ monotonic }: MonotonicClock) {
  let failed = 0;
  const known: Failure[] = [];
  const unknown: Failure[] = [];
  /** By environment, so that none hides the payments of another. */
  const uncertain = new Map<string, Failure[]>();
  const mismatched = new Map<string, StatusFacts['orderMismatches'][number][]>();
  return {
    /** @param now milliseconds since 1970 */
    recordMismatch: (context: RequestContext, now: number): void => {
      const { id: requestId, environment = '', operation = '', login, orderMismatch: field } = context;
      if (field === undefined) return;
      const responses = mismatched.get(environment) ?? [];
      mismatched.set(environment, responses);
      const response = { at: isoTime(now), requestId, environment, operation, login: login ?? null, field };
      addBounded(responses, response, maxMismatches);
    },
    /** @param now milliseconds since 1970. Newest first. */
    orderMismatches: (now: number): StatusFacts['orderMismatches'] => {
      const oldest = isoTime(now - uncertainAge);
      const recentOnes = [...mismatched.values()].flat().filter(({ at }) => at >= oldest);
      return recentOnes.toSorted((one, other) => (one.at < other.at ? 1 : -1));
    },
    /** @param now milliseconds since 1970 */
    recordFailure: (context: RequestContext, now: number): void => {
      const { caller, environment = '' } = context;
      failed += 1;
      const entry = { number: failed, at: monotonic(), failure: failureOf(context, now) };
      if (isUncertainPayment(context)) {
        const payments = uncertain.get(environment) ?? [];
        uncertain.set(environment, payments);
        addBounded(payments, entry, maxUncertainPayments);
      }
      if (caller === undefined) addBounded(unknown, entry, maxUnknownCallers);
      else addBounded(known, entry, maxFailures);
    },
    /** Newest first. */
    failures: () => newestFirst([...known, ...unknown]).slice(0, maxFailures),
    /** Payments of the last hour whose outcome is not known, newest first. */
    uncertainPayments(): UncertainPayment[] {
      const oldest = monotonic() - uncertainAge;
      const payments = newestFirst([...uncertain.values()].flat().filter(({ at }) => at >= oldest));
      return payments.map((payment) => {
        const { at, requestId, caller, environment, operation, login, orderId, statusPath, outcome } =
          payment;
        return { at, requestId, caller, environment, operation, login, orderId, statusPath, outcome };
      });
    },
  };
}

function addBounded<T>(entries: T[], entry: T, max: number): void {
  entries.push(entry);
  if (entries.length > max) entries.shift();
}

function newestFirst(entries: readonly Failure[]): FailedRequest[] {
  return entries.toSorted((one, other) => other.number - one.number).map(({ failure }) => failure);
}

/** Whether Countersign or the gateway responded with an error, or there was no response. */
export function isFailed({ reason, gatewayStatus = 0 }: RequestContext): boolean {
  return reason !== undefined || gatewayStatus >= 400;
}

/** Copies what is shown, so that the rest of the request is not kept. @param at milliseconds since 1970 */
export function failureOf(context: RequestContext, at: number): FailedRequest {
  const { id: requestId, caller = null, environment = null, operation = null } = context;
  const { login = null, status = null, outcome } = context;
  const cause = causeOf(context);
  const runbookSection = sectionFor(context, cause);
  const { orderId = null, statusPath = null } = isUncertainPayment(context) ? context : {};
  const route = { caller, environment, operation, login, orderId, statusPath };
  return { at: isoTime(at), requestId, ...route, status, outcome, cause, runbookSection };
}

/** A server error for a payment leaves its outcome uncertain, whatever its status. */
function sectionFor(context: RequestContext, cause: FailureCause): string | null {
  if (isPaymentServerError(context)) return anchorOf(sectionOf(conditions['outcome-unknown']));
  const isOfCaller = cause === 'gateway-status' && (context.gatewayStatus ?? 0) < 500;
  return isOfCaller ? null : anchorOf(sectionOfCause(cause));
}

/** A request that failed although the caller did nothing wrong, other than by a rejection of the gateway. */
function isOurFailure(context: RequestContext): boolean {
  return ['gateway', 'countersign'].includes(responsibleParty(context));
}

/** What a request says of its environment. A status below 500 is a response of a gateway that works; a verified callback has none. */
function verdictOn({ reason, gatewayStatus }: RequestContext, isOurs: boolean): Verdict {
  if (isOurs || (reason === undefined && isRejection(gatewayStatus ?? 0))) return 'failed';
  return reason === undefined && gatewayStatus !== undefined ? 'succeeded' : 'neither';
}

/** `rejection` stays set if a retry got another response. */
function causeOf({ reason, gatewayStatus = 0, rejection }: RequestContext): FailureCause {
  if (reason !== undefined) return reason;
  return isRejection(gatewayStatus) ? (rejection ?? 'gateway-status') : 'gateway-status';
}
