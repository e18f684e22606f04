import { availableParallelism } from 'node:os';

/** Signing threads by default: one for each core that the process may use, within these limits, and a spare one. */
const signingThreads = { min: 2, max: 8 };
/**
 * A core would be idle from the end of a signature until the event loop has handed out the next one. A spare thread
 * makes 18 % more signatures of 4096 bits on two cores; a second one adds 9 %, but half as much again to the latency
 * of HMAC requests beside them.
 */
const spareThreads = 1;
/** Threads that signatures leave to DNS lookups and file reads. */
const otherThreads = 2;
const variable = 'UV_THREADPOOL_SIZE';

/**
 * Sets the size of libuv's thread pool, on which RSA signatures are made, unless the operator has set it. Has no effect
 * once the pool is in use: call this before anything is loaded that might use it.
 *
 * @param cores that the process may use
 */
export function sizeThreadPool(environment = process.env, cores = availableParallelism()): void {
  const threads = Math.min(signingThreads.max, Math.max(signingThreads.min, cores));
  environment[variable] ??= String(threads + spareThreads + otherThreads);
}

/**
 * How many RSA signatures may be made at once so that other work finds a free thread.
 *
 * @param poolSize the value of `UV_THREADPOOL_SIZE`
 */
export function signingConcurrency(poolSize: string | undefined): number {
  return Math.max(1, Number.parseInt(poolSize ?? '4', 10) - otherThreads || 1);
}
