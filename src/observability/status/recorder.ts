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
import { createKeySourceRecorder, type KeySourceRecorder } from './key-source-state.ts';
import { createMissingKeyRecorder, type MissingKeyRecorder } from './missing-keys.ts';
import { RequestWindow, type WindowSummary } from './request-window.ts';

/** Milliseconds. */
const recent = 60_000;

/** The last used logins. */
const limit = 1_000;

interface VerdictCounts {
  readonly accepted: number;
  readonly rejected: number;
}

/** The configured names; see labels.ts. */
export type StatusNames = Readonly<Record<'environments', object>> & Pick<LabelDomain, 'callers'>;

interface EnvironmentRecord extends WindowSummary {
  /** Seconds that the clock of the gateway is ahead. */
  readonly clockSkew: number | undefined;
  /** Logins by what the gateway said to the last request of each in the last minute. */
  readonly logins: VerdictCounts;
}

interface Caller {
  readonly name: string;
  requests: number;
  denied: number;
  /** Milliseconds since 1970. */
  lastSeenAt: number | undefined;
}

/** Since the start. */
type CallerRecord = Readonly<Caller>;

interface CertificateRecord extends Validity {
  readonly name: string;
  readonly environment: string | undefined;
}

/** The configuration in effect. `loadedAt`: milliseconds since 1970. */
interface ConfigRecord {
  readonly digest: string;
  readonly loadedAt: number;
  readonly reloadFailed: boolean;
}

/** Whether audit records can be written, and why not. */
export interface AuditRecord {
  readonly up: boolean;
  readonly problem: string | undefined;
}

/** Remembers what the status shows. Its memory is bounded, and an event costs much less than a request. */
export interface StatusRecorder
  extends KeySourceRecorder,
    Omit<MissingKeyRecorder, 'keyWanted' | 'forgetKeys'>,
    Pick<
      MetricsObserver,
      | 'auditUp'
      | 'certificateLoaded'
      | 'certificateRemoved'
      | 'configLoaded'
      | 'gatewayResponded'
      | 'requestFinished'
    > {
  /** Drops names that a reloaded configuration no longer has. */
  readonly reconfigure: (names: StatusNames) => void;
  /** @param digest of the file */
  readonly configApplied: (digest: string) => void;
  readonly environment: (name: string) => EnvironmentRecord | undefined;
  readonly callers: () => CallerRecord[];
  /** Newest first. */
  readonly failures: () => RecordedFailure[];
  /** Payments of the last hour whose outcome is not known, newest first. */
  readonly uncertainPayments: () => RecordedFailure[];
  readonly certificates: () => CertificateRecord[];
  /** Whether audit records can be written; `undefined` if that is not known. */
  readonly audit: () => AuditRecord | undefined;
  readonly config: () => ConfigRecord;
}

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

export function createStatusRecorder(options: StatusRecorderOptions): StatusRecorder {
  const { clock, names, digest } = options;
  const keySource = createKeySourceRecorder(options);
  const { keyWanted, forgetKeys, ...keys } = createMissingKeyRecorder(options);
  const detailOf = (context: RequestContext): string | undefined => {
    const { reason, environment = '', login = '', unreachable, tlsAlert, gatewayStatus } = context;
    if (reason === 'gateway-unreachable') return unreachable;
    if (reason === 'gateway-reset') return tlsAlert;
    if (reason === undefined) return gatewayStatus?.toString();
    if (reason === 'key-missing') keyWanted({ environment, login });
    if (reason !== 'key-source-unavailable') return undefined;
    return keys.readProblem({ environment, login }) ?? keySource.keySource().problem;
  };
  const requests = createRequestRecorder(options, detailOf);
  requests.reconfigure(names);
  let audit: AuditRecord | undefined;
  let config: ConfigRecord = { digest, loadedAt: clock(), reloadFailed: false };
  return {
    ...requests,
    ...keySource,
    ...keys,
    keySourceReplaced() {
      keySource.keySourceReplaced();
      forgetKeys();
    },
    audit: () => audit,
    auditUp(up, cause) {
      if (audit?.up !== up || audit.problem !== cause) audit = { up, problem: up ? undefined : cause };
    },
    ...createCertificateRecorder(),
    config: () => config,
    configApplied(applied) {
      config = { ...config, digest: applied, loadedAt: clock() };
    },
    configLoaded(successful) {
      config = { ...config, reloadFailed: !successful };
    },
  };
}

interface Environment {
  readonly window: RequestWindow;
  readonly logins: LoginVerdicts;
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
    if (login !== undefined && gatewayStatus !== undefined) logins.record(endedAt, login, gatewayStatus);
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
    reconfigure(names: StatusNames): void {
      const create = (): Environment => ({
        window: new RequestWindow(monotonic()),
        logins: new LoginVerdicts(),
        clockSkew: undefined,
      });
      environments = mapOf(Object.keys(names.environments), environments, create);
      callers = mapOf(names.callers, callers, newCaller);
    },
    environment(name: string): EnvironmentRecord | undefined {
      const known = environments.get(name);
      if (known === undefined) return undefined;
      const now = monotonic();
      const { window, logins, clockSkew } = known;
      return { ...window.summary(now), logins: logins.counts(now), clockSkew };
    },
    callers: (): CallerRecord[] => [...callers.values()],
  };
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
    failures: () =>
      [...known.newestFirst(), ...unknown.newestFirst()]
        .toSorted(([a], [b]) => b - a)
        .slice(0, maxFailures)
        .map(([, failure]) => failure),
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
  const certificates = new Map<string, CertificateRecord>();
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

/** What the gateway said to the last request of each login: accepted, or 403. Distinguishes a bad key from a blocked instance. */
class LoginVerdicts {
  /** The last used last. */
  readonly #last = new Map<string, { readonly at: number; readonly rejected: boolean }>();

  /** @param at monotonic, in milliseconds */
  record(at: number, login: string, gatewayStatus: number): void {
    const rejected = gatewayStatus === 403;
    if (!rejected && !acceptsKey(gatewayStatus)) return;
    this.#last.delete(login);
    this.#last.set(login, { at, rejected });
    const [oldest] = this.#last.keys();
    if (this.#last.size > limit && oldest !== undefined) this.#last.delete(oldest);
  }

  counts(now: number): VerdictCounts {
    const verdicts = [...this.#last.values()].filter(({ at }) => now - at < recent);
    const rejected = verdicts.filter((verdict) => verdict.rejected).length;
    return { accepted: verdicts.length - rejected, rejected };
  }
}
