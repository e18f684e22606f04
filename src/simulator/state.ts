import { Accounts } from './accounts.ts';
import { FaultRules } from './fault-rules.ts';
import { Journal } from './journal.ts';
import { Ledger } from './ledger.ts';
import { NonceMemory } from './nonces.ts';
import { OffsetClock } from './offset-clock.ts';
import { RequestCounter } from './request-counter.ts';
import type { Scenario } from './scenario-schema.ts';
import type { GatewayKeys } from './signature.ts';

export interface StateOptions {
  readonly scenario: Scenario;
  /** The keys that are accepted for each login at first. */
  readonly keys: ReadonlyMap<string, GatewayKeys>;
  /** Milliseconds since 1970; the `Date` header follows it. */
  readonly clock: () => number;
}

/** What a reset can return to how it was at the start. */
export const stateParts = ['journal', 'nonces', 'transfers', 'faults', 'clock', 'keys'] as const;
export type StatePart = (typeof stateParts)[number];

const capacity = { nonces: 200_000, orders: 1000, responses: 10_000, journal: 1000 };

/** All that a simulated gateway remembers. Bounded. May change while requests are in flight. */
export class SimulatorState {
  /** Keys and blocked logins. */
  readonly accounts: Accounts;
  readonly clock: OffsetClock;
  readonly faults: FaultRules;
  readonly journal = new Journal(capacity.journal);
  readonly ledger: Ledger;
  readonly nonces = new NonceMemory(capacity.nonces);
  /** Counts the requests for operations. */
  readonly seen = new RequestCounter();

  constructor({ scenario, keys, clock }: StateOptions) {
    this.accounts = new Accounts(scenario.logins, keys);
    this.clock = new OffsetClock(clock);
    this.faults = new FaultRules(scenario.faults);
    this.ledger = new Ledger(scenario.orders, capacity);
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
