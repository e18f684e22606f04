import type { VerificationFailure } from './verification-error.ts';

/** One kind of request, as the simulator counts them. */
export interface RequestKey {
  readonly operation: string;
  /** Of an accepted request; any other may be in anybody's name. */
  readonly login?: string;
  /** Index of the accepted key among the login's keys of that kind at that time. */
  readonly keyIndex?: number;
  /** Absent from an accepted request. */
  readonly rejection?: VerificationFailure;
}

/** Counts requests by kind. Bounded, because every field of a sighting comes from a closed set. */
export class RequestCounter {
  readonly #rows = new Map<string, { readonly sighting: RequestKey; count: number }>();

  add(sighting: RequestKey): void {
    const { operation, login, keyIndex, rejection } = sighting;
    const id = JSON.stringify([operation, login, keyIndex, rejection]);
    const row = this.#rows.get(id) ?? { sighting, count: 0 };
    row.count += 1;
    this.#rows.set(id, row);
  }

  /** How many requests had all of these; `count()` is every request received. */
  count(wanted: Partial<RequestKey> = {}): number {
    return this.#sum(({ sighting }) => matches(sighting, wanted));
  }

  /** The same, of those that passed every check. */
  accepted(wanted: Partial<Omit<RequestKey, 'rejection'>> = {}): number {
    return this.#sum(({ sighting }) => sighting.rejection === undefined && matches(sighting, wanted));
  }

  #sum(isWanted: (row: { readonly sighting: RequestKey }) => boolean): number {
    return [...this.#rows.values()].filter(isWanted).reduce((sum, { count }) => sum + count, 0);
  }
}

function matches(sighting: RequestKey, wanted: Partial<RequestKey>): boolean {
  const { operation, login, keyIndex, rejection } = { ...sighting, ...wanted };
  return (
    sighting.operation === operation &&
    sighting.login === login &&
    sighting.keyIndex === keyIndex &&
    sighting.rejection === rejection
  );
}
