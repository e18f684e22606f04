/** Schedules a call. Returns the function that cancels it. */
export type SetTimer = (run: () => void, milliseconds: number) => () => void;

/** With longer delays `setTimeout` fires immediately. Firing early is harmless here. */
const maxDelay = 2_147_483_647;

/** A timer that does not keep the process alive. */
export const setTimer: SetTimer = (run, milliseconds) => {
  const timer = setTimeout(run, Math.min(Math.max(milliseconds, 0), maxDelay)).unref();
  return () => clearTimeout(timer);
};
