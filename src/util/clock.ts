const first = Date.parse('0000-01-01T00:00:00.000Z');

const last = Date.parse('9999-12-31T23:59:59.999Z');

/** Schedules a call. Returns the function that cancels it. */
export type SetTimer = (run: () => void, milliseconds: number) => () => void;

/** With longer delays `setTimeout` fires immediately. Firing early is harmless here. */
const maxDelay = 2_147_483_647;

/** A timer that does not keep the process alive. */
export const setTimer: SetTimer = (run, milliseconds) => {
  const timer = setTimeout(run, Math.min(Math.max(milliseconds, 0), maxDelay)).unref();
  return () => clearTimeout(timer);
};

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

/** A time of the monotonic clock, in milliseconds, as ISO 8601; null for none. */
export interface WallTimes {
  (at: number): string;
  (at: number | undefined): string | null;
}

/**
 * Shows times of the monotonic clock as the wall clock would: the same time always alike, until the wall clock is set by
 * more than a second. So what a time is compared with is as far from it as it was, whatever happens to that clock.
 */
export function wallTimes({ clock, monotonic }: WallClock & MonotonicClock): WallTimes {
  let toWall = clock() - monotonic();
  function shown(at: number): string;
  function shown(at: number | undefined): string | null;
  function shown(at: number | undefined): string | null {
    const now = clock() - monotonic();
    if (Math.abs(now - toWall) > 1_000) toWall = now;
    return at === undefined ? null : isoTime(at + toWall);
  }
  return shown;
}

/**
 * A time as ISO 8601, which has years of four digits: an earlier or later one becomes the first or the last of them.
 *
 * @param milliseconds since 1970; NaN, as of a certificate with a date that cannot be parsed, becomes the first
 */
export function isoTime(milliseconds: number): string {
  const time = Number.isNaN(milliseconds) ? first : milliseconds;
  return new Date(Math.min(Math.max(time, first), last)).toISOString();
}
