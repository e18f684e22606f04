export interface Vitals {
  /** The instance is shutting down and finishes what is under way. */
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
}

/** Whether this instance should be given requests. An outage of the key source alone is no reason against it. */
export function readiness({ draining, keySourceReady, keysCached }: Vitals): Readiness {
  const reasons = [
    ...(draining ? ['draining'] : []),
    ...(keySourceReady || keysCached ? [] : ['key-source-never-reached']),
  ];
  return { ready: reasons.length === 0, reasons };
}
