import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { ValidConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { fromEnvironment } from '../config/variables.ts';
import type { Routes } from '../gateway/router.ts';
import { createDebugLog } from '../observability/debug-log.ts';
import type { EventObserver } from '../observability/events.ts';
import { createKeyLog } from '../observability/key-log.ts';
import type { LogDestination } from '../observability/log-destination.ts';
import { sampleRejections } from '../observability/log-sampling.ts';
import type { Logger } from '../observability/logger.ts';
import { LoginRedactor } from '../observability/login-redactor.ts';
import { createPrometheus } from '../observability/prometheus.ts';
import { createStatusRecorder } from '../observability/status/recorder.ts';
import { createTlsPeers } from '../observability/tls-peers.ts';
import { createTracing } from '../observability/tracing/tracing.ts';
import { InflightRequests } from '../proxy/inflight-requests.ts';
import { ConcurrencyLimiter, MemoryBudget } from '../proxy/limits.ts';
import type { Audit } from './audit.ts';
import { packageVersion } from './package-info.ts';
import { createNonceGenerator, system } from './system.ts';
import { signingConcurrency } from './thread-pool.ts';

/** What a start may replace; all but the log only in tests and in the demo. */
export interface ServiceOptions extends Partial<typeof system> {
  readonly log: Logger;
  /** The destination of the log; without it, dropped log lines are unknown. */
  readonly logDestination?: LogDestination;
  readonly nonce?: () => string;
  /** For the demo only: an unknown bearer token is ignored. No configuration can set this. */
  readonly acceptUnknownTokens?: boolean;
  /** Milliseconds between two renderings of a page of the admin port; see admin.ts. */
  readonly renderInterval?: number;
  /** Milliseconds between checks of the certificate files. */
  readonly certificateCheckInterval?: number;
}

/** Who observes what happens: log, metrics, status and, at log level `debug`, the log of decisions. */
export function createObservers(loaded: ValidConfig, routes: Routes, overrides: ServiceOptions) {
  const { config } = loaded;
  const redactor = new LoginRedactor(loginsIn(config));
  const log = redactor.redacting(overrides.log);
  const decisions = createDebugLog(log);
  const recorder = createStatusRecorder(loaded, { ...system, ...overrides });
  const limiter = new ConcurrencyLimiter();
  const prometheus = createPrometheus({ version: packageVersion(), routes });
  const { monotonic } = { ...system, ...overrides };
  const keyLog = createKeyLog({ log, monotonic, source: config.keys.source });
  const metrics = redactor.redacting<EventObserver>(prometheus, recorder, keyLog, decisions?.observer ?? {});
  const reconfigure = (next: ValidConfig, nextRoutes: Routes): void => {
    recorder.reconfigure(next);
    prometheus.reconfigure(nextRoutes);
  };
  return { redactor, log, decisions, recorder, limiter, prometheus, metrics, reconfigure };
}

/** What a reload of the configuration does not replace. */
export type Shared = ReturnType<typeof createShared>;

/** @param tlsFailed TLS with Vault failed: its certificate may have a new CA */
export function createShared(
  config: Config,
  { logDestination, ...overrides }: ServiceOptions,
  observers: ReturnType<typeof createObservers>,
  audit: Audit | undefined,
  tlsFailed: () => void,
) {
  const { log, metrics } = observers;
  const parts = { ...system, nonce: createNonceGenerator(), ...overrides };
  const { monotonic } = parts;
  const sampled = sampleRejections(log, { monotonic, suppressed: () => metrics.logLineSuppressed() });
  const version = packageVersion();
  return {
    ...parts,
    ...observers,
    log: sampled,
    signingConcurrency: signingConcurrency(fromEnvironment('UV_THREADPOOL_SIZE')),
    tlsPeers: createTlsPeers({ log: sampled, metrics, monotonic }),
    tlsFailed,
    tracing: createTracing({ ...parts, log, metrics, version, instance: hostname() }),
    memory: new MemoryBudget(config.proxy.maxBufferedBytes),
    inflight: new InflightRequests(),
    logLinesDropped: () => logDestination?.dropped ?? 0,
    logState: () => logDestination?.state() ?? { logLinesDropped: false, logStalled: false },
    /** Audit records are required and cannot be written. */
    isAuditUnavailable: () => audit?.isUnavailable() ?? false,
    audit: audit?.log,
    newRequestId: randomUUID,
    userAgent: `countersign/${version}`,
  };
}

/** The logins that the configuration contains literally. Log and metrics may show them. */
export function loginsIn(config: Config): string[] {
  const mapped = Object.values(config.environments).flatMap(({ endpoints }) => Object.values(endpoints));
  const granted = config.callers.flatMap(({ allow }) => allow.flatMap(({ logins }) => logins));
  return [...mapped, ...granted.filter((pattern) => !pattern.endsWith('*'))];
}
