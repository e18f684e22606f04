import type { FailureCause } from './failure.ts';

/** Upper bound of the first bucket in seconds. */
const smallest = 0.0001;

/** Each bucket reaches 2^(1/8) times as far as the one before: a percentile is at most a tenth too high. */
const perDoubling = 8;

/** The last bucket has everything above 28 minutes. */
export const bucketCount = 24 * perDoubling + 1;

/** The window in seconds; one slot each. */
const size = 60;

/** What happened in the last minute. */
interface WindowSummary {
  readonly requestsPerSecond: number;
  /** Share of 403 among the gateway responses; `undefined` without responses. */
  readonly rejectedShare: number | undefined;
  /** Share of failed requests; `undefined` without requests. */
  readonly failedShare: number | undefined;
  readonly failures: readonly RecentFailures[];
  /** Seconds; `undefined` without requests. */
  readonly latency: { readonly p50: number; readonly p99: number } | undefined;
}

/** Failed requests of the last minute with the same cause. `lastAt`: monotonic, in milliseconds. */
interface RecentFailures {
  readonly cause: FailureCause;
  /** Of the last one: what else is known. */
  readonly detail: string | undefined;
  readonly count: number;
  /** Of all requests. */
  readonly share: number;
  readonly lastAt: number;
}

/**
 * Counts of the last minute, in a ring of one-second slots of fixed size. Recording costs the same whatever the load;
 * sums are made only by {@link summary}. All times are monotonic, in milliseconds.
 */
export class RequestWindow {
  readonly #startedAt: number;
  /** The second that each slot holds. */
  readonly #seconds = new Float64Array(size).fill(-1);
  readonly #requests = new Uint32Array(size);
  readonly #responses = new Uint32Array(size);
  readonly #rejections = new Uint32Array(size);
  readonly #durations = new Uint32Array(size * bucketCount);
  /** By cause, of which there are a few dozen. */
  readonly #failures = new Map<FailureCause, Failures>();

  constructor(startedAt: number) {
    this.#startedAt = startedAt;
  }

  /** @param seconds from request to response */
  recordRequest(now: number, seconds: number): void {
    const slot = this.#slotOf(now);
    increment(this.#requests, slot);
    increment(this.#durations, slot * bucketCount + bucketOf(seconds));
  }

  recordResponse(now: number, isRejection: boolean): void {
    const slot = this.#slotOf(now);
    increment(this.#responses, slot);
    if (isRejection) increment(this.#rejections, slot);
  }

  /** In addition to {@link recordRequest}. */
  recordFailure(now: number, cause: FailureCause, detail: string | undefined): void {
    const slot = this.#slotOf(now);
    const known = this.#failures.get(cause);
    const failures = known ?? { counts: new Uint32Array(size), lastAt: now, detail };
    if (known === undefined) this.#failures.set(cause, failures);
    increment(failures.counts, slot);
    Object.assign(failures, { lastAt: now, detail });
  }

  summary(now: number): WindowSummary {
    const newest = Math.floor(now / 1000);
    const slots = this.#slotsSince(newest - size + 1);
    const sum = (counts: Uint32Array): number =>
      slots.reduce((total, slot) => total + (counts[slot] ?? 0), 0);
    const [requests, responses] = [sum(this.#requests), sum(this.#responses)];
    const durations = new Uint32Array(bucketCount);
    for (const slot of slots) {
      for (let bucket = 0; bucket < bucketCount; bucket += 1) {
        durations[bucket] = (durations[bucket] ?? 0) + (this.#durations[slot * bucketCount + bucket] ?? 0);
      }
    }
    const shareOf = (failed: number): number => Math.min(1, failed / Math.max(1, requests));
    const failures = [...this.#failures].flatMap(([cause, { counts, ...last }]) => {
      const count = sum(counts);
      return count === 0 ? [] : [{ cause, ...last, count, share: shareOf(count) }];
    });
    const failed = failures.reduce((total, { count }) => total + count, 0);
    const [p50, p99] = [percentile(durations, 0.5), percentile(durations, 0.99)];
    return {
      requestsPerSecond: requests / this.#secondsCovered(now, newest),
      rejectedShare: responses === 0 ? undefined : sum(this.#rejections) / responses,
      failedShare: requests === 0 ? undefined : shareOf(failed),
      failures,
      latency: p50 === undefined || p99 === undefined ? undefined : { p50, p99 },
    };
  }

  #slotsSince(oldest: number): number[] {
    return [...this.#seconds.keys()].filter((slot) => (this.#seconds[slot] ?? -1) >= Math.max(0, oldest));
  }

  /** The window begins with a whole second, or with the start. */
  #secondsCovered(now: number, newest: number): number {
    return Math.max(1, Math.min(now / 1000 - (newest - size + 1), (now - this.#startedAt) / 1000));
  }

  #slotOf(now: number): number {
    const second = Math.floor(now / 1000);
    const slot = second % size;
    if (this.#seconds[slot] !== second) this.#reuse(slot, second);
    return slot;
  }

  #reuse(slot: number, second: number): void {
    this.#seconds[slot] = second;
    this.#requests[slot] = 0;
    this.#responses[slot] = 0;
    this.#rejections[slot] = 0;
    for (const { counts } of this.#failures.values()) counts[slot] = 0;
    this.#durations.fill(0, slot * bucketCount, (slot + 1) * bucketCount);
  }
}

interface Failures {
  readonly counts: Uint32Array;
  lastAt: number;
  detail: string | undefined;
}

function increment(counts: Uint32Array, index: number): void {
  counts[index] = (counts[index] ?? 0) + 1;
}

/** The bucket of a duration in seconds. */
export function bucketOf(seconds: number): number {
  if (!(seconds > smallest)) return 0;
  return Math.min(bucketCount - 1, Math.ceil(Math.log2(seconds / smallest) * perDoubling));
}

/** Seconds that a share of the durations did not exceed; `undefined` without durations. @param counts by bucket */
export function percentile(counts: Uint32Array, share: number): number | undefined {
  let rest = Math.ceil(share * counts.reduce((sum, count) => sum + count, 0));
  if (rest === 0) return undefined;
  const bucket = counts.findIndex((count) => {
    rest -= count;
    return rest <= 0;
  });
  return Number((smallest * 2 ** (bucket / perDoubling)).toPrecision(3));
}
