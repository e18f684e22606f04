/** Clocks and randomness of the process, for everything that takes them as options. */
export const system = {
  clock: () => Date.now(),
  monotonic: () => performance.now(),
  random: () => Math.random(),
};
