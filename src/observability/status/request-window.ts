import { createHistogram } from 'node:perf_hooks';
import type { FailureCause } from './facts.ts';

/** The window in seconds; one slot each. */
const size = 60;

/** So many seconds count for whether everything fails now: with the second that a page is kept, 5. */
const present = 4;

/** Units of a duration in a second. */
const perSecond = 10_000;

/** Up to 28 minutes, and with one digit: a percentile is at most a tenth too high. */
const precision = { lowest: 1, highest: 2 ** 24, figures: 1 };

/**
 * What became of a request: `failed` because of the gateway or Countersign, `rejected` with 401 or 403 by the gateway;
 * `neither` if it failed by a fault of its caller, which says nothing of the environment.
 */
export type Verdict = 'succeeded' | 'failed' | 'rejected' | 'neither';

/** Requests that failed for one cause, or that the gateway rejected. */
interface Failures {
  readonly cause: FailureCause | 'rejected';
  /** Of the last one. */
  readonly detail: string | null;
  /** If all of them have the same, as the next two. */
  readonly caller: string | null;
  readonly operation: string | null;
  readonly login: string | null;
  readonly count: number;
  /** The first of them without a minute between two. */
  readonly since: number;
  readonly lastAt: number;
}

type Failure = Omit<Failures, 'count' | 'since' | 'lastAt'>;

/** What happened in one second. */
type Slot = ReturnType<typeof newSlot>;

function newSlot(second: number) {
  const requests = { succeeded: 0, failed: 0, rejected: 0, neither: 0 };
  const failures = new Map<Failures['cause'], Failures>();
  return { second, ...requests, durations: createHistogram(precision), failures };
}

function together(one: Failures | undefined, later: Failures): Failures {
  if (one === undefined) return later;
  const same = (name: 'caller' | 'operation' | 'login') => (one[name] === later[name] ? one[name] : null);
  const [caller, operation, login] = [same('caller'), same('operation'), same('login')];
  return { ...later, count: one.count + later.count, caller, operation, login };
}

/**
 * Counts of the last minute, in a ring of one-second slots. Recording costs the same whatever the load; sums are made only
 * by {@link summary}. All times are monotonic, in milliseconds.
 */
export class RequestWindow {
  readonly #startedAt: number;
  readonly #slots: Slot[] = [];
  /** The last one of each cause. */
  readonly #last = new Map<Failures['cause'], Failures>();

  constructor(startedAt: number) {
    this.#startedAt = startedAt;
  }

  /**
   * @param seconds from request to response
   * @param failure of a failed or rejected one
   */
  recordRequest(now: number, seconds: number, verdict: Verdict, failure?: Failure): void {
    const slot = this.#slotOf(now);
    slot[verdict] += 1;
    const { lowest, highest } = precision;
    if (verdict !== 'neither')
      slot.durations.record(Math.min(Math.max(Math.ceil(seconds * perSecond), lowest), highest));
    if (failure === undefined) return;
    const last = this.#last.get(failure.cause);
    const since = last !== undefined && now - last.lastAt < size * 1000 ? last.since : now;
    const one = { ...failure, count: 1, since, lastAt: now };
    this.#last.set(failure.cause, one);
    slot.failures.set(failure.cause, together(slot.failures.get(failure.cause), one));
  }

  /** As the status has it, but with monotonic times; null: there were no requests, or no responses. */
  summary(now: number) {
    const second = Math.floor(now / 1000);
    const oldest = second - size + 1;
    const slots = this.#slots.filter((slot) => slot.second >= oldest).toSorted((a, b) => a.second - b.second);
    const sum = (countOf: (slot: Slot) => number): number =>
      slots.reduce((total, slot) => total + countOf(slot), 0);
    const durations = createHistogram(precision);
    for (const slot of slots) durations.add(slot.durations);
    const counted = durations.count;
    const requests = counted + sum((slot) => slot.neither);
    const percentile = (percent: number) => durations.percentile(percent) / perSecond;
    const causes = Map.groupBy(
      slots.flatMap(({ failures }) => [...failures.values()]),
      ({ cause }) => cause,
    );
    const failures = Array.from(causes.values(), (list) => list.reduce(together));
    const rejected = sum((slot) => slot.rejected);
    const responses = rejected + sum((slot) => slot.succeeded);
    const latest = slots.filter((slot) => slot.second > second - present);
    // The window begins with a whole second, or with the start.
    const covered = Math.max(1, Math.min(now / 1000 - oldest, (now - this.#startedAt) / 1000));
    return {
      requestsPerSecond: requests / covered,
      rejectedShare: responses === 0 ? null : rejected / responses,
      failedShare: requests === 0 ? null : sum((slot) => slot.failed) / requests,
      allFail:
        latest.some((slot) => slot.failed + slot.rejected > 0) &&
        latest.every((slot) => slot.succeeded === 0),
      failures: failures.map((one) => ({ ...one, share: one.count / requests })),
      latency: counted === 0 ? null : { p50: percentile(50), p99: percentile(99) },
    };
  }

  #slotOf(now: number): Slot {
    const second = Math.floor(now / 1000);
    const known = this.#slots[second % size];
    if (known?.second === second) return known;
    const slot = newSlot(second);
    this.#slots[second % size] = slot;
    return slot;
  }
}
