export type Signals = ReturnType<typeof catchSignals>;

/**
 * The first SIGTERM or SIGINT starts the shutdown, even during the start. A second one, or SIGINT (Ctrl-C), skips the
 * shutdown delay. Nothing skips the rest, which takes a bounded time: an immediate exit would lose in-flight payments, and
 * npm passes on what a terminal sends, so that one Ctrl-C is two.
 * A SIGHUP during the start takes effect after it.
 *
 * @param active false keeps the default effect of the signals
 */
export function catchSignals(active: boolean) {
  const stop = Promise.withResolvers<void>();
  const skipDelay = Promise.withResolvers<void>();
  let pending = false;
  let reload = (): void => {
    pending = true;
  };
  if (active) {
    process.once('SIGTERM', () => {
      stop.resolve();
      process.on('SIGTERM', () => skipDelay.resolve());
    });
    process.on('SIGINT', () => {
      stop.resolve();
      skipDelay.resolve();
    });
    process.on('SIGHUP', () => reload());
  }
  return {
    /** Resolves at the first SIGTERM or SIGINT. */
    stop: stop.promise,
    /** Resolves when the shutdown delay is to be skipped. */
    skipDelay: skipDelay.promise,
    /** Calls back at each SIGHUP, and at once if one was received before. */
    onReload(next: () => void): void {
      reload = next;
      if (pending) next();
    },
  };
}

/** By default SIGUSR1 opens a debugger on a loopback port, which can read every key. */
export function ignoreDebuggerSignal(): void {
  process.on('SIGUSR1', () => {});
}
