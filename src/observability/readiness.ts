import type { LogState } from './log-destination.ts';

export interface ReadinessInputs extends LogState {
  /** The instance is shutting down and finishes in-flight requests. */
  readonly draining: boolean;
  /** The key source has responded at least once since the start. */
  readonly keySourceReady: boolean;
  /** Audit records are required and cannot be written, so nothing can be sent. */
  readonly auditUnavailable: boolean;
  /** Some keys are cached, so signing continues while the source fails. */
  readonly keysCached: boolean;
  /** The keys of every JWT issuer are available. Without them, only callers with a JWT are rejected. */
  readonly jwtKeysAvailable: boolean;
}

export interface Readiness {
  readonly ready: boolean;
  /** Why not; empty when ready. */
  readonly reasons: readonly string[];
  /** Problems that do not make the instance unready. */
  readonly warnings: readonly string[];
}

/**
 * Whether this instance should receive requests. An outage of the key source alone does not make it unready, nor does
 * a log that cannot be written: one full volume would take out every instance.
 */
export function computeReadiness(inputs: ReadinessInputs): Readiness {
  const {
    draining,
    keySourceReady,
    keysCached,
    auditUnavailable,
    jwtKeysAvailable,
    logLinesDropped,
    logStalled,
  } = inputs;
  const reasons = [
    ...(draining ? ['draining'] : []),
    ...(keySourceReady || keysCached ? [] : ['key-source-never-reached']),
    ...(auditUnavailable ? ['audit-unavailable'] : []),
  ];
  const warnings = [
    ...(jwtKeysAvailable ? [] : ['jwt-keys-unavailable']),
    ...(logLinesDropped ? ['log-lines-dropped'] : []),
    ...(logStalled ? ['log-stalled'] : []),
  ];
  return { ready: reasons.length === 0, reasons, warnings };
}
