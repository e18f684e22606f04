import type { MonotonicClock, Randomness, WallClock } from '../util/clock.ts';

/** Clocks and randomness of the process, for everything that takes them as options. */
export const system: WallClock & MonotonicClock & Randomness = {
  clock: Date.now,
  monotonic: performance.now.bind(performance),
  random: Math.random,
};
