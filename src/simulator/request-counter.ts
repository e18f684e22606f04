import type { VerificationFailure } from './rejections.ts';

/** A kind of request that the simulator counts. */
export interface RequestKey {
  readonly operation: string;
  /** Only of accepted requests; others may claim any login. */
  readonly login?: string;
  /** Index of the accepted key among the login's keys of that kind at the time. */
  readonly keyIndex?: number;
  /** Absent for accepted requests. */
  readonly rejection?: VerificationFailure;
}

/** Counts requests by kind. Bounded, because every field of a key comes from a closed set. */
export class RequestCounter {
  readonly #counts = new Map<string, { readonly key: RequestKey; count: number }>();

  add(key: RequestKey): void {
    const { operation, login, keyIndex, rejection } = key;
    const id = JSON.stringify([operation, login, keyIndex, rejection]);
    const row = this.#counts.get(id) ?? { key, count: 0 };
    row.count += 1;
    this.#counts.set(id, row);
  }

  /** The number of requests with all of these; `count()` counts all requests. */
  count(filter: Partial<RequestKey> = {}): number {
    return this.#sum(({ key }) => matches(key, filter));
  }

  /** The same, but only for requests that passed every check. */
  accepted(filter: Partial<Omit<RequestKey, 'rejection'>> = {}): number {
    return this.#sum(({ key }) => key.rejection === undefined && matches(key, filter));
  }

  clear(): void {
    this.#counts.clear();
  }

  #sum(isMatch: (row: { readonly key: RequestKey }) => boolean): number {
    return [...this.#counts.values()].filter(isMatch).reduce((sum, { count }) => sum + count, 0);
  }
}

function matches(key: RequestKey, filter: Partial<RequestKey>): boolean {
  const { operation, login, keyIndex, rejection } = { ...key, ...filter };
  return (
    key.operation === operation &&
    key.login === login &&
    key.keyIndex === keyIndex &&
    key.rejection === rejection
  );
}
