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

/** Why an instance is not ready. */
export const readinessReasons = ['draining', 'key-source-never-reached', 'audit-unavailable'] as const;
/** Problems that do not make it unready. */
export const readinessWarnings = ['jwt-keys-unavailable', 'log-lines-dropped', 'log-stalled'] as const;

export type ReadinessCode = (typeof readinessReasons)[number] | (typeof readinessWarnings)[number];

export type Readiness = ReturnType<typeof computeReadiness>;

/**
 * Whether this instance should receive requests. An outage of the key source alone does not make it unready, nor does
 * a log that cannot be written: one full volume would take out every instance.
 */
export function computeReadiness(inputs: ReadinessInputs) {
  const holds: Readonly<Record<ReadinessCode, boolean>> = {
    draining: inputs.draining,
    'key-source-never-reached': !inputs.keySourceReady && !inputs.keysCached,
    'audit-unavailable': inputs.auditUnavailable,
    'jwt-keys-unavailable': !inputs.jwtKeysAvailable,
    'log-lines-dropped': inputs.logLinesDropped,
    'log-stalled': inputs.logStalled,
  };
  const reasons = readinessReasons.filter((code) => holds[code]);
  const warnings = readinessWarnings.filter((code) => holds[code]);
  return { ready: reasons.length === 0, reasons, warnings };
}
