import { setImmediate as nextTurn } from 'node:timers/promises';

/** Runs work in the next turn of the event loop. All calls until then share one run and its result. */
export function shareTurn<T>(work: () => Promise<T>): () => Promise<T> {
  let shared: Promise<T> | undefined;
  return () => {
    shared ??= nextTurn().then(() => {
      shared = undefined;
      return work();
    });
    return shared;
  };
}
