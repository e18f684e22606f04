/** @returns collects all garbage of this process, at once. `npm test` exposes it by --expose-gc. */
export function garbageCollector(): () => void {
  const collect = globalThis.gc;
  if (collect === undefined) throw new TypeError('no garbage collector');
  return () => collect();
}
