import { Accounts } from './accounts.ts';
import { FaultRules } from './fault-rules.ts';
import { Journal } from './journal.ts';
import { Ledger } from './ledger.ts';
import { NonceMemory } from './nonces.ts';
import type { VerificationFailure } from './rejections.ts';
import type { Scenario } from './scenario-schema.ts';
import type { GatewayKeys } from './signature.ts';

/** A kind of request that the simulator counts. */
interface RequestKey {
  readonly operation: string;
  /** Only of accepted requests; others may claim any login. */
  readonly login?: string;
  /** Index of the accepted key among the login's keys of that kind at the time. */
  readonly keyIndex?: number;
  /** Absent for accepted requests. */
  readonly rejection?: VerificationFailure | undefined;
}

export interface StateOptions {
  readonly scenario: Scenario;
  /** The keys that are accepted for each login at first. */
  readonly keys: ReadonlyMap<string, GatewayKeys>;
  /** Milliseconds since 1970; the `Date` header follows it. */
  readonly clock: () => number;
}

/** What a reset can return to how it was at the start. */
export const stateParts = ['journal', 'nonces', 'transfers', 'faults', 'clock', 'keys'] as const;
type StatePart = (typeof stateParts)[number];

/** All that a simulated gateway remembers. Bounded. May change while requests are in flight. */
export class SimulatorState {
  readonly scenario: Scenario;
  /** Keys and blocked logins. */
  readonly accounts: Accounts;
  /** A real clock, in milliseconds since 1970, plus an offset that may change while it runs. */
  readonly clock: { offsetSeconds: number; readonly now: () => number };
  readonly faults: FaultRules;
  readonly journal = new Journal(1000);
  readonly ledger: Ledger;
  readonly nonces = new NonceMemory(200_000);
  /** Counts the requests for operations. */
  readonly seen = new RequestCounter();

  constructor({ scenario, keys, clock }: StateOptions) {
    this.scenario = scenario;
    this.accounts = new Accounts(scenario.logins, keys);
    this.clock = { offsetSeconds: 0, now: () => clock() + this.clock.offsetSeconds * 1000 };
    this.faults = new FaultRules(scenario.faults);
    this.ledger = new Ledger(scenario.orders, { orders: 1000, responses: 10_000 });
  }

  reset(parts: readonly StatePart[] = stateParts): void {
    const resets: Readonly<Record<StatePart, () => void>> = {
      journal: () => {
        this.journal.clear();
        this.seen.clear();
      },
      nonces: () => this.nonces.clear(),
      transfers: () => this.ledger.reset(),
      faults: () => this.faults.reset(),
      clock: () => {
        this.clock.offsetSeconds = 0;
      },
      keys: () => this.accounts.reset(),
    };
    for (const part of parts) resets[part]();
  }
}

/** Counts requests by kind. Bounded, because every field of a key comes from a closed set. */
class RequestCounter {
  readonly #counts = new Map<string, { readonly key: RequestKey; count: number }>();

  add(key: RequestKey): void {
    const row = this.#counts.get(textOf(key)) ?? { key, count: 0 };
    row.count += 1;
    this.#counts.set(textOf(key), row);
  }

  /** The number of requests with all of these; `count()` counts all requests. */
  count(filter: Partial<RequestKey> = {}): number {
    return [...this.#counts]
      .filter(([text, { key }]) => textOf({ ...key, ...filter }) === text)
      .reduce((sum, [, { count }]) => sum + count, 0);
  }

  /** The same, but only for requests that passed every check. */
  accepted(filter: Partial<Omit<RequestKey, 'rejection'>> = {}): number {
    return this.count({ ...filter, rejection: undefined });
  }

  clear(): void {
    this.#counts.clear();
  }
}

function textOf({ operation, login, keyIndex, rejection }: RequestKey): string {
  return JSON.stringify([operation, login, keyIndex, rejection]);
}
