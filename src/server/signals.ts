/** The signals that `serve` reacts to, from the moment they are caught. */
export interface Signals {
  /** Resolves at the first SIGTERM or SIGINT. */
  readonly stop: Promise<void>;
  /** Resolves when the shutdown delay is not to be waited for. */
  readonly skipDelay: Promise<void>;
  /** Calls back at each SIGHUP; at once if one came before. */
  onReload(reload: () => void): void;
}

/**
 * The first SIGTERM or SIGINT, also one that comes during the start, begins the shutdown. A second one, or SIGINT
 * (Ctrl-C), skips the shutdown delay. Nothing skips the rest, which takes a bounded time: to end at once would lose
 * payments in flight. A SIGHUP during the start is remembered.
 *
 * @param active otherwise signals keep their default effect
 */
export function catchSignals(active: boolean): Signals {
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
    stop: stop.promise,
    skipDelay: skipDelay.promise,
    onReload(next) {
      reload = next;
      if (pending) next();
    },
  };
}

/** By default SIGUSR1 opens a debugger on a port of loopback, which can read every key. */
export function ignoreDebuggerSignal(): void {
  process.on('SIGUSR1', () => {});
}
