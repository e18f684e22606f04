/** Runs something later, unless the function given back is called first. */
export type SetTimer = (run: () => void, milliseconds: number) => () => void;

/** Longer delays make `setTimeout` fire at once; waking early does no harm here. */
const longestDelay = 2_147_483_647;

/** A timer that does not keep the process alive. */
export const setTimer: SetTimer = (run, milliseconds) => {
  const timer = setTimeout(run, Math.min(Math.max(milliseconds, 0), longestDelay)).unref();
  return () => clearTimeout(timer);
};
