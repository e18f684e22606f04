import type { RequestContext } from '../../request-context.ts';
import type { TlsUser } from '../../tls/files.ts';
import type { Validity } from '../../tls/material.ts';
import type { MonotonicClock, WallClock } from '../../util/clock.ts';
import type { LabelDomain } from '../labels.ts';
import type { CertificateInUse, GatewayResponseEvent, MetricsObserver } from '../metrics-observer.ts';
import { certificateName } from '../metrics-recorder.ts';
import { failureOf, isFailed, type RecordedFailure } from './failure.ts';
import { createKeySourceRecorder, type KeySourceRecorder } from './key-source-state.ts';
import { LastEntries } from './last-entries.ts';
import { RequestWindow, type WindowSummary } from './request-window.ts';

/** The configured names; see labels.ts. */
export type StatusNames = Readonly<Record<'environments', object>> & Pick<LabelDomain, 'callers'>;

export interface EnvironmentRecord extends WindowSummary {
  /** Seconds that the clock of the gateway is ahead. */
  readonly clockSkew: number | undefined;
}

interface Caller {
  readonly name: string;
  requests: number;
  denied: number;
  /** Milliseconds since 1970. */
  lastSeenAt: number | undefined;
}

/** Since the start. */
export type CallerRecord = Readonly<Caller>;

export interface CertificateRecord extends Validity {
  readonly name: string;
  readonly environment: string | undefined;
}

/** The configuration in effect. `loadedAt`: milliseconds since 1970. */
export interface ConfigRecord {
  readonly digest: string;
  readonly loadedAt: number;
  readonly reloadFailed: boolean;
}

/** Remembers what the status shows. Its memory is bounded, and an event costs much less than a request. */
export interface StatusRecorder
  extends KeySourceRecorder,
    Pick<
      MetricsObserver,
      'certificateLoaded' | 'certificateRemoved' | 'configLoaded' | 'gatewayResponded' | 'requestFinished'
    > {
  /** Drops names that a reloaded configuration no longer has. */
  readonly reconfigure: (names: StatusNames) => void;
  /** @param digest of the file */
  readonly configApplied: (digest: string) => void;
  readonly environment: (name: string) => EnvironmentRecord | undefined;
  readonly callers: () => CallerRecord[];
  /** Newest first. */
  readonly failures: () => RecordedFailure[];
  readonly certificates: () => CertificateRecord[];
  readonly config: () => ConfigRecord;
}

export interface StatusRecorderOptions extends WallClock, MonotonicClock {
  readonly names: StatusNames;
  /** Of the configuration file. */
  readonly digest: string;
}

/** Failed requests that a status has at most. */
export const maxFailures = 100;
/** Those of unknown callers: anybody can cause them, and they must not hide the others. */
const maxUnknownCallers = 20;

export function createStatusRecorder(options: StatusRecorderOptions): StatusRecorder {
  const { clock, names, digest } = options;
  const requests = createRequestRecorder(options);
  requests.reconfigure(names);
  let config: ConfigRecord = { digest, loadedAt: clock(), reloadFailed: false };
  return {
    ...requests,
    ...createKeySourceRecorder(options),
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
  clockSkew: number | undefined;
}

function createRequestRecorder({ clock, monotonic }: WallClock & MonotonicClock) {
  let environments = new Map<string, Environment>();
  let callers = new Map<string, Caller>();
  // Numbered, since the wall clock may be set back.
  let failed = 0;
  const failures = {
    known: new LastEntries<readonly [number: number, RecordedFailure]>(maxFailures),
    unknown: new LastEntries<readonly [number: number, RecordedFailure]>(maxUnknownCallers),
  };
  return {
    requestFinished(context: RequestContext): void {
      const { environment = '', caller = '', reason, startedAt, durations } = context;
      const { total = 0 } = durations;
      environments.get(environment)?.window.recordRequest(startedAt + total * 1000, total);
      const now = clock();
      const known = callers.get(caller);
      if (known !== undefined) {
        known.requests += 1;
        if (reason === 'not-allowed') known.denied += 1;
        known.lastSeenAt = now;
      }
      if (!isFailed(context)) return;
      failed += 1;
      failures[caller === '' ? 'unknown' : 'known'].add([failed, failureOf(context, now)]);
    },
    gatewayResponded({ environment, status, clockSkew }: GatewayResponseEvent): void {
      const known = environments.get(environment);
      if (known === undefined) return;
      known.window.recordResponse(monotonic(), status === 403);
      if (clockSkew !== undefined) known.clockSkew = clockSkew;
    },
    reconfigure(names: StatusNames): void {
      const create = (): Environment => ({ window: new RequestWindow(monotonic()), clockSkew: undefined });
      environments = mapOf(Object.keys(names.environments), environments, create);
      callers = mapOf(names.callers, callers, newCaller);
    },
    environment(name: string): EnvironmentRecord | undefined {
      const known = environments.get(name);
      return known && { ...known.window.summary(monotonic()), clockSkew: known.clockSkew };
    },
    callers: (): CallerRecord[] => [...callers.values()],
    failures: () =>
      [...failures.known.newestFirst(), ...failures.unknown.newestFirst()]
        .toSorted(([a], [b]) => b - a)
        .slice(0, maxFailures)
        .map(([, failure]) => failure),
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
      for (const part of ['cert', 'ca'] as const) certificates.delete(idOf({ ...user, part }));
    },
  };
}
