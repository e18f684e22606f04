/** Parts get their clocks and their randomness as options, so that only the composition root has real ones. */
export interface WallClock {
  /** Milliseconds since 1970. */
  readonly clock: () => number;
}

export interface MonotonicClock {
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
}

export interface Randomness {
  /** From 0 up to 1. */
  readonly random: () => number;
}
