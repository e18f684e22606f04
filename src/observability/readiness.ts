import type { LogState } from './log-destination.ts';

export interface ReadinessInputs extends LogState {
  /** The instance is shutting down and finishes requests in flight. */
  readonly draining: boolean;
  /** The key source has answered once since the start. */
  readonly keySourceReady: boolean;
  /** Some keys are cached: enough to go on signing while the source fails. */
  readonly keysCached: boolean;
}

export interface Readiness {
  readonly ready: boolean;
  /** Why not; empty when ready. */
  readonly reasons: readonly string[];
  /** What is wrong and is no reason against requests. */
  readonly warnings: readonly string[];
}

/**
 * Whether this instance should be given requests. An outage of the key source alone is no reason against it, nor is a
 * log that cannot be written: one full volume would take every instance out.
 */
export function computeReadiness(vitals: ReadinessInputs): Readiness {
  const { draining, keySourceReady, keysCached, logLinesDropped, logStalled } = vitals;
  const reasons = [
    ...(draining ? ['draining'] : []),
    ...(keySourceReady || keysCached ? [] : ['key-source-never-reached']),
  ];
  const warnings = [
    ...(logLinesDropped ? ['log-lines-dropped'] : []),
    ...(logStalled ? ['log-stalled'] : []),
  ];
  return { ready: reasons.length === 0, reasons, warnings };
}
