import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** @returns collects all garbage of this process, at once */
export function garbageCollector(): () => void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect !== 'function') throw new TypeError('no garbage collector');
  return () => void collect();
}
