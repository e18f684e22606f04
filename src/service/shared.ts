import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { ValidConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { fromEnvironment } from '../config/variables.ts';
import { createRoutes } from '../gateway/router.ts';
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
import { ConcurrencyLimiter, MemoryBudget } from '../proxy/limits.ts';
import { openAudit } from './audit.ts';
import { openOnce } from './once.ts';
import { packageVersion } from './package-info.ts';
import { system } from './system.ts';
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

export type Shared = Awaited<ReturnType<typeof createShared>>;

const minute = 60_000;

/**
 * What a process has once, and each service hands over to the next.
 *
 * @param isDraining the process is shutting down
 * @throws Error if the audit trail cannot be opened, or the key of claims is unusable
 */
export async function createShared(loaded: ValidConfig, options: ServiceOptions, isDraining: () => boolean) {
  const { config, digest } = loaded;
  const { logDestination } = options;
  const { clock, monotonic, random } = { ...system, ...options };
  const version = packageVersion();
  const redactor = new LoginRedactor(loginsIn(config));
  const log = redactor.redacting(options.log);
  const decisions = createDebugLog(log);
  const recorder = createStatusRecorder(loaded, { clock, monotonic });
  const prometheus = createPrometheus({ version, routes: createRoutes(config) });
  const keyLog = createKeyLog({ log, monotonic, source: config.keys.source });
  const metrics = redactor.redacting<EventObserver>(prometheus, recorder, keyLog, decisions?.observer ?? {});
  const sampled = sampleRejections(log, { monotonic, suppressed: () => metrics.logLineSuppressed() });
  const instance = hostname();
  return {
    clock,
    monotonic,
    random,
    /** When the process started. Monotonic, milliseconds. */
    startedAt: monotonic(),
    log: sampled,
    logLinesDropped: () => logDestination?.dropped ?? 0,
    logState: () => logDestination?.state() ?? { logLinesDropped: false, logStalled: false },
    /** At log level `debug` only. */
    decisions,
    redactor,
    /** Everybody who observes what happens: metrics, status and log. */
    metrics,
    prometheus,
    recorder,
    tlsPeers: createTlsPeers({ log: sampled, metrics, monotonic }),
    tracing: createTracing({ clock, monotonic, log, metrics, version, instance }),
    limiter: new ConcurrencyLimiter({ monotonic }),
    memory: new MemoryBudget(config.proxy.maxBufferedBytes),
    audit:
      config.audit &&
      (await openAudit(config.audit, { clock, monotonic, log, metrics, digest, logDestination })),
    once:
      config.payments.once &&
      (await openOnce(config.payments.once, { clock, monotonic, random, log, metrics })),
    newRequestId: (): string => randomUUID(),
    nonce: options.nonce ?? (() => randomUUID().replaceAll('-', '')),
    userAgent: `countersign/${version}`,
    /** Maximum concurrent RSA signatures where the configuration has no limit. */
    signingConcurrency: signingConcurrency(fromEnvironment('UV_THREADPOOL_SIZE')),
    acceptUnknownTokens: options.acceptUnknownTokens ?? false,
    renderInterval: options.renderInterval,
    certificateCheckInterval: options.certificateCheckInterval ?? minute,
    isDraining,
  };
}

/** The logins that the configuration contains literally. Log and metrics may show them. */
export function loginsIn(config: Config): string[] {
  const mapped = Object.values(config.environments).flatMap(({ endpoints }) => Object.values(endpoints));
  const granted = config.callers.flatMap(({ allow }) => allow.flatMap(({ logins }) => logins));
  return [...mapped, ...granted.filter((pattern) => !pattern.endsWith('*'))];
}
