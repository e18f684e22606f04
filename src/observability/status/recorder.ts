import { acceptsKey, type RequestContext } from '../../request-context.ts';
import type { TlsUser } from '../../tls/files.ts';
import { datedParts, type Validity } from '../../tls/material.ts';
import type { MonotonicClock, WallClock } from '../../util/clock.ts';
import type { LabelDomain } from '../labels.ts';
import type { CertificateInUse, GatewayResponseEvent, MetricsObserver } from '../metrics-observer.ts';
import { certificateName } from '../metrics-recorder.ts';
import {
  causeOf,
  failureOf,
  isFailed,
  isOurFailure,
  isUncertainPayment,
  type RecordedFailure,
} from './failure.ts';
import { createKeySourceRecorder } from './key-source-state.ts';
import { createMissingKeyRecorder, setBounded } from './missing-keys.ts';
import { RequestWindow } from './request-window.ts';

/** Milliseconds. */
const recent = 60_000;

/** The last used logins. */
const maxLogins = 1_000;

/** The configured names; see labels.ts. */
export type StatusNames = Readonly<Record<'environments', object>> & Pick<LabelDomain, 'callers'>;

interface Caller {
  readonly name: string;
  requests: number;
  denied: number;
  /** Milliseconds since 1970. */
  lastSeenAt: number | undefined;
}

export type StatusRecorder = ReturnType<typeof createStatusRecorder>;

interface StatusRecorderOptions extends WallClock, MonotonicClock {
  readonly names: StatusNames;
  /** Of the configuration file. */
  readonly digest: string;
}

/** Failed requests that a status has at most. */
export const maxFailures = 100;
/** Those of unknown callers: anybody can cause them, and they must not hide the others. */
const maxUnknownCallers = 20;
/** Payments of an environment whose outcome has to be queried that a status has at most. */
export const maxUncertainPayments = 1_000;
/** How long they are kept, in milliseconds. */
const uncertainAge = 3_600_000;

/** Remembers what the status shows. Its memory is bounded, and an event costs much less than a request. */
export function createStatusRecorder(options: StatusRecorderOptions) {
  const { clock, names, digest } = options;
  const keySource = createKeySourceRecorder(options);
  const { keyWanted, forgetKeys, ...keys } = createMissingKeyRecorder(options);
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
    return keys.readProblem({ environment, login }) ?? keySource.keySource().problem;
  };
  const requests = createRequestRecorder(options, detailOf);
  requests.reconfigure(names);
  let audit: { readonly up: boolean; readonly problem: string | undefined } | undefined;
  let config = { digest, loadedAt: clock(), reloadFailed: false };
  const configLoaded: MetricsObserver['configLoaded'] = (successful) => {
    config = { ...config, reloadFailed: !successful };
  };
  return {
    ...requests,
    ...keySource,
    ...keys,
    /** A reload changed the key source; what is known concerns the previous one. */
    keySourceReplaced(): void {
      keySource.keySourceReplaced();
      forgetKeys();
    },
    transitSigned: ((environment, _result, _seconds, problem) => {
      if (problem !== undefined) signingProblems.set(environment, problem);
    }) satisfies MetricsObserver['transitSigned'],
    /** Whether audit records can be written; `undefined` if that is not known. */
    audit: () => audit,
    auditUp(up: boolean, cause?: string): void {
      if (audit?.up !== up || audit.problem !== cause) audit = { up, problem: up ? undefined : cause };
    },
    ...createCertificateRecorder(),
    /** The configuration in effect. `loadedAt`: milliseconds since 1970. */
    config: () => config,
    /** @param applied digest of the file */
    configApplied(applied: string): void {
      config = { ...config, digest: applied, loadedAt: clock() };
    },
    configLoaded,
  };
}

interface Environment {
  readonly window: RequestWindow;
  /** What the gateway said to the last request of each login. Distinguishes a bad key from a blocked instance. */
  readonly logins: Map<string, { readonly at: number; readonly rejected: boolean }>;
  clockSkew: number | undefined;
}

function createRequestRecorder(
  { clock, monotonic }: WallClock & MonotonicClock,
  detailOf: (context: RequestContext) => string | undefined,
) {
  let environments = new Map<string, Environment>();
  let callers = new Map<string, Caller>();
  const { recordFailure, ...failures } = createFailureRecorder(monotonic);
  const recordIn = ({ window, logins }: Environment, context: RequestContext): void => {
    const { startedAt, durations, login, gatewayStatus } = context;
    const { total = 0 } = durations;
    const endedAt = startedAt + total * 1000;
    window.recordRequest(endedAt, total);
    if (isOurFailure(context)) window.recordFailure(endedAt, causeOf(context), detailOf(context));
    if (login === undefined || gatewayStatus === undefined) return;
    const rejected = gatewayStatus === 403;
    if (rejected || acceptsKey(gatewayStatus))
      setBounded(logins, login, { at: endedAt, rejected }, maxLogins);
  };
  return {
    ...failures,
    requestFinished(context: RequestContext): void {
      const { environment = '', caller = '', reason } = context;
      const target = environments.get(environment);
      if (target !== undefined) recordIn(target, context);
      const now = clock();
      const known = callers.get(caller);
      if (known !== undefined) {
        known.requests += 1;
        if (reason === 'not-allowed') known.denied += 1;
        known.lastSeenAt = now;
      }
      if (isFailed(context)) recordFailure(context, now);
    },
    gatewayResponded({ environment, status, clockSkew }: GatewayResponseEvent): void {
      const known = environments.get(environment);
      if (known === undefined) return;
      known.window.recordResponse(monotonic(), status === 403);
      if (clockSkew !== undefined) known.clockSkew = clockSkew;
    },
    /** Drops names that a reloaded configuration no longer has. */
    reconfigure(names: StatusNames): void {
      const create = (): Environment => {
        const window = new RequestWindow(monotonic());
        return { window, logins: new Map(), clockSkew: undefined };
      };
      environments = mapOf(Object.keys(names.environments), environments, create);
      callers = mapOf(names.callers, callers, newCaller);
    },
    /** `clockSkew`: seconds that the clock of the gateway is ahead. */
    environment(name: string) {
      const known = environments.get(name);
      if (known === undefined) return undefined;
      const now = monotonic();
      const { window, logins, clockSkew } = known;
      return { ...window.summary(now), logins: countVerdicts(logins, now), clockSkew };
    },
    callers: (): Readonly<Caller>[] => [...callers.values()],
  };
}

/** Of the last minute. */
function countVerdicts(logins: Environment['logins'], now: number) {
  const verdicts = [...logins.values()].filter(({ at }) => now - at < recent);
  const rejected = verdicts.filter((verdict) => verdict.rejected).length;
  return { accepted: verdicts.length - rejected, rejected };
}

/** @param monotonic milliseconds */
function createFailureRecorder(monotonic: () => number) {
  // Numbered, since the wall clock may be set back.
  let failed = 0;
  const known = new LastEntries<readonly [number: number, RecordedFailure]>(maxFailures);
  const unknown = new LastEntries<readonly [number: number, RecordedFailure]>(maxUnknownCallers);
  /** By environment, so that none hides the payments of another. */
  const uncertain = new Map<string, LastEntries<readonly [number: number, at: number, RecordedFailure]>>();
  const recordUncertain = (failure: RecordedFailure): void => {
    const environment = failure.environment ?? '';
    const entries = uncertain.get(environment) ?? new LastEntries(maxUncertainPayments);
    uncertain.set(environment, entries);
    entries.add([failed, monotonic(), failure]);
  };
  return {
    /** @param now milliseconds since 1970 */
    recordFailure: (context: RequestContext, now: number): void => {
      const failure = failureOf(context, now);
      failed += 1;
      if (isUncertainPayment(context)) recordUncertain(failure);
      (context.caller === undefined ? unknown : known).add([failed, failure]);
    },
    /** Newest first. */
    failures: () =>
      [...known.newestFirst(), ...unknown.newestFirst()]
        .toSorted(([a], [b]) => b - a)
        .slice(0, maxFailures)
        .map(([, failure]) => failure),
    /** Payments of the last hour whose outcome is not known, newest first. */
    uncertainPayments() {
      const oldest = monotonic() - uncertainAge;
      return [...uncertain.values()]
        .flatMap((entries) => entries.newestFirst().filter(([, at]) => at >= oldest))
        .toSorted(([a], [b]) => b - a)
        .map(([, , failure]) => failure);
    },
  };
}

function newCaller(name: string): Caller {
  return { name, requests: 0, denied: 0, lastSeenAt: undefined };
}

/** Keeps what is known of these names. */
function mapOf<T>(
  names: readonly string[],
  known: ReadonlyMap<string, T>,
  create: (name: string) => T,
): Map<string, T> {
  return new Map(names.map((name) => [name, known.get(name) ?? create(name)]));
}

function createCertificateRecorder() {
  const certificates = new Map<
    string,
    Validity & { readonly name: string; readonly environment: string | undefined }
  >();
  const idOf = ({ part, role, environment = '' }: CertificateInUse): string =>
    `${role} ${part} ${environment}`;
  return {
    certificates: () => [...certificates.values()],
    certificateLoaded(certificate: CertificateInUse, { from, until }: Validity): void {
      const { environment } = certificate;
      certificates.set(idOf(certificate), { name: certificateName(certificate), environment, from, until });
    },
    certificateRemoved(user: TlsUser): void {
      for (const part of datedParts) certificates.delete(idOf({ ...user, part }));
    },
  };
}

/** The last entries of a stream, at most `limit`. */
export class LastEntries<T> {
  readonly #limit: number;
  readonly #entries: T[] = [];
  /** Where the next entry goes; the oldest is there once all places are used. */
  #next = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  add(entry: T): void {
    this.#entries[this.#next] = entry;
    this.#next = (this.#next + 1) % this.#limit;
  }

  newestFirst(): T[] {
    return [...this.#entries.slice(this.#next), ...this.#entries.slice(0, this.#next)].toReversed();
  }
}
