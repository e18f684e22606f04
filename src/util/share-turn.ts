import { setImmediate as nextTurn } from 'node:timers/promises';

/** Work that begins in the next turn of the event loop, and that everybody shares who asks for it before. */
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
