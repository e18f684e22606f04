import type { Config } from '../config/schema.ts';
import type { LoginRedactor } from '../observability/login-redactor.ts';
import type { Readiness } from '../observability/readiness.ts';
import { withFindings } from '../observability/status/findings.ts';
import type { StatusRecorder } from '../observability/status/recorder.ts';
import type { FailedRequest, Status } from '../observability/status/schema.ts';
import type { ConcurrencyLimiter } from '../proxy/concurrency-limiter.ts';
import type { MonotonicClock, WallClock } from '../util/clock.ts';
import { isoTime } from '../util/iso-time.ts';
import { packageVersion } from '../util/package-info.ts';
import { shareTurn } from '../util/share-turn.ts';
import { type KeysInUse, keyStatus } from './key-status.ts';

export interface StatusSources extends WallClock, MonotonicClock {
  readonly recorder: StatusRecorder;
  readonly limiter: ConcurrencyLimiter;
  /** Removes logins that may not be written. */
  readonly redactor: Pick<LoginRedactor, 'text'>;
  readonly readiness: () => Readiness;
  /** What is in effect now. */
  readonly runtime: () => { readonly config: Config; readonly keys: KeysInUse };
}

/** Puts the status together on demand; pages of the same turn share it. */
export function createStatus(sources: StatusSources): () => Promise<Status> {
  const { clock, monotonic, recorder, redactor, readiness } = sources;
  const started = { wall: clock(), monotonic: monotonic() };
  return shareTurn(async () => {
    const { config, keys } = sources.runtime();
    const now = clock();
    const toWall = now - monotonic();
    const { ready, reasons, warnings } = readiness();
    return withFindings({
      at: isoTime(now),
      runbookUrl: config.admin.runbookUrl ?? null,
      health: { ready, reasons: [...reasons], warnings: [...warnings] },
      environments: environments(config, sources),
      keys: keyStatus(keys, { redact: redactor.text, timeOf: (time) => isoTime(time + toWall) }),
      callers: callers(config, recorder),
      failures: failures(recorder),
      certificates: certificates(recorder),
      keySource: keySource(config, recorder),
      process: {
        version: packageVersion(),
        node: process.version,
        startedAt: isoTime(started.wall),
        uptime: Math.round(monotonic() - started.monotonic) / 1000,
      },
      config: { ...recorder.config(), loadedAt: isoTime(recorder.config().loadedAt) },
    });
  });
}

function environments(config: Config, { recorder, limiter }: StatusSources): Status['environments'] {
  return Object.entries(config.environments).map(([name, { baseUrl, maxInFlight }]) => {
    const recorded = recorder.environment(name);
    return {
      name,
      gatewayHost: new URL(baseUrl).host,
      inFlight: limiter.inFlight(name),
      maxInFlight,
      requestsPerSecond: recorded?.requestsPerSecond ?? 0,
      rejectedShare: recorded?.rejectedShare ?? null,
      latency: recorded?.latency ?? null,
      clockSkew: recorded?.clockSkew ?? null,
    };
  });
}

function callers(config: Config, recorder: StatusRecorder): Status['callers'] {
  const modes = new Map(config.callers.map(({ name, mode }) => [name, mode]));
  return recorder.callers().map(({ name, requests, denied, lastSeenAt }) => ({
    name,
    mode: modes.get(name) ?? 'enforce',
    requests,
    denied,
    lastSeenAt: orNull(lastSeenAt),
  }));
}

function failures(recorder: StatusRecorder): FailedRequest[] {
  return recorder.failures().map((failure) => ({ ...failure, at: isoTime(failure.at) }));
}

function certificates(recorder: StatusRecorder): Status['certificates'] {
  return recorder.certificates().map(({ name, environment = null, from, until }) => ({
    name,
    environment,
    from: isoTime(from),
    until: isoTime(until),
  }));
}

function keySource({ keys }: Config, recorder: StatusRecorder): Status['keySource'] {
  const { up = null, since, problem = null, tokenExpiresAt } = recorder.keySource();
  return { type: keys.source, up, since: orNull(since), problem, tokenExpiresAt: orNull(tokenExpiresAt) };
}

function orNull(time: number | undefined): string | null {
  return time === undefined ? null : isoTime(time);
}
