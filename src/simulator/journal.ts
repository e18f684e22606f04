import type { FaultName } from './fault-rule.ts';
import type { VerificationFailure } from './rejections.ts';
import type { Step } from './verification-trace.ts';

/** What the simulator did with one request. Holds no card data, keys or signatures; its size is bounded. */
export interface JournalEntry {
  /** From 1; a reset starts again. */
  readonly id: number;
  /** When the response was decided, in UTC: real time, without the clock offset. */
  readonly time: string;
  readonly method: string;
  readonly path: string;
  /** Absent for a path that the simulator does not serve, and for a body that cannot be read. */
  readonly operation?: string;
  /** The consumer key of the request, verified or not. */
  readonly login?: string | undefined;
  readonly parameters: readonly { readonly name: string; readonly value: string }[];
  /** How many more parameters the form had. */
  readonly omittedParameters?: number | undefined;
  /** The checks that were made: all, or up to the first that failed. */
  readonly steps: readonly Step[];
  readonly rejection?: VerificationFailure | undefined;
  /** What the rejection or a 404 means, and what to check. */
  readonly hint?: string | undefined;
  /** The fault that was applied. */
  readonly fault?:
    | {
        readonly id?: number | undefined;
        readonly fault?: FaultName | undefined;
        readonly delaySeconds?: number | undefined;
      }
    | undefined;
  /** Of the response; `null` for faults without a valid one. */
  readonly status: number | null;
}

/** The last requests. The oldest are dropped first. */
export class Journal {
  readonly #capacity: number;
  #entries: JournalEntry[] = [];
  #total = 0;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  record(entry: Omit<JournalEntry, 'id'>): void {
    this.#total += 1;
    this.#entries.push({ id: this.#total, ...entry });
    if (this.#entries.length > this.#capacity) this.#entries.shift();
  }

  /** Oldest first. */
  entries(): readonly JournalEntry[] {
    return this.#entries;
  }

  /** How many requests were recorded, including those that were dropped. */
  get total(): number {
    return this.#total;
  }

  clear(): void {
    this.#entries = [];
    this.#total = 0;
  }
}
