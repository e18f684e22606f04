import type { FailureCause } from './facts.ts';

/** Upper bound of the first bucket in seconds. */
const smallest = 0.0001;

/** Each bucket reaches 2^(1/8) times as far as the one before: a percentile is at most a tenth too high. */
const perDoubling = 8;

/** The last bucket has everything above 28 minutes. */
export const bucketCount = 24 * perDoubling + 1;

/** The window in seconds; one slot each. */
const size = 60;

/** So many seconds count for whether everything fails now: with the second that a page is kept, 5. */
const present = 4;

/** Whether a request succeeded; `neither` if it failed by a fault of its caller, which says nothing of the environment. */
export type Verdict = 'succeeded' | 'failed' | 'neither';

/** What happened in one second. */
interface Slot {
  readonly second: number;
  requests: number;
  succeeded: number;
  failed: number;
  responses: number;
  /** 403s among the responses. */
  rejections: number;
  /** Requests by the bucket of their duration. */
  readonly durations: Uint32Array;
  readonly failures: Map<FailureCause, Failures>;
}

/** Failed requests of one cause. */
interface Failures {
  readonly count: number;
  /** If all of them have the same. */
  readonly login: string | null;
}

function together(one: Failures | undefined, other: Failures): Failures {
  if (one === undefined) return other;
  return { count: one.count + other.count, login: one.login === other.login ? one.login : null };
}

/**
 * Counts of the last minute, in a ring of one-second slots. Recording costs the same whatever the load; sums are made only
 * by {@link summary}. All times are monotonic, in milliseconds.
 */
export class RequestWindow {
  readonly #startedAt: number;
  readonly #slots: Slot[] = [];
  /** The last failure of each cause, of which there are a few dozen. */
  readonly #lastFailures = new Map<
    FailureCause,
    { readonly lastAt: number; readonly detail: string | null }
  >();

  constructor(startedAt: number) {
    this.#startedAt = startedAt;
  }

  /** @param seconds from request to response */
  recordRequest(now: number, seconds: number, verdict: Verdict): void {
    const slot = this.#slotOf(now);
    const bucket = bucketOf(seconds);
    slot.requests += 1;
    if (verdict !== 'neither') slot[verdict] += 1;
    slot.durations[bucket] = (slot.durations[bucket] ?? 0) + 1;
  }

  recordResponse(now: number, isRejection: boolean): void {
    const slot = this.#slotOf(now);
    slot.responses += 1;
    if (isRejection) slot.rejections += 1;
  }

  /** In addition to {@link recordRequest}. */
  recordFailure(now: number, cause: FailureCause, detail: string | null, login: string | null): void {
    const { failures } = this.#slotOf(now);
    failures.set(cause, together(failures.get(cause), { count: 1, login }));
    this.#lastFailures.set(cause, { lastAt: now, detail });
  }

  /** As the status has it, but with monotonic times; null: there were no requests, or no responses. */
  summary(now: number) {
    const oldest = Math.floor(now / 1000) - size + 1;
    const slots = this.#slots.filter(({ second }) => second >= oldest);
    const sum = (countOf: (slot: Slot) => number): number =>
      slots.reduce((total, slot) => total + countOf(slot), 0);
    const [requests, responses] = [sum((slot) => slot.requests), sum((slot) => slot.responses)];
    const failures = [...this.#lastFailures].flatMap(([cause, last]) => {
      const some = slots.flatMap((slot) => slot.failures.get(cause) ?? []);
      if (some.length === 0) return [];
      const { count, login } = some.reduce(together);
      return [{ cause, ...last, login, count, share: count / requests }];
    });
    const failed = failures.reduce((total, { count }) => total + count, 0);
    const durations = new Uint32Array(bucketCount).map((_, bucket) =>
      sum((slot) => slot.durations[bucket] ?? 0),
    );
    const [p50, p99] = [percentile(durations, 0.5), percentile(durations, 0.99)];
    const latest = slots.filter(({ second }) => second > Math.floor(now / 1000) - present);
    const allFail = latest.some((slot) => slot.failed > 0) && latest.every((slot) => slot.succeeded === 0);
    // The window begins with a whole second, or with the start.
    const covered = Math.max(1, Math.min(now / 1000 - oldest, (now - this.#startedAt) / 1000));
    return {
      requestsPerSecond: requests / covered,
      rejectedShare: responses === 0 ? null : sum((slot) => slot.rejections) / responses,
      failedShare: requests === 0 ? null : failed / requests,
      allFail,
      failures,
      latency: p50 === undefined || p99 === undefined ? null : { p50, p99 },
    };
  }

  #slotOf(now: number): Slot {
    const second = Math.floor(now / 1000);
    const known = this.#slots[second % size];
    if (known?.second === second) return known;
    const counts = { requests: 0, succeeded: 0, failed: 0, responses: 0, rejections: 0 };
    const slot = { second, ...counts, durations: new Uint32Array(bucketCount), failures: new Map() };
    this.#slots[second % size] = slot;
    return slot;
  }
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
