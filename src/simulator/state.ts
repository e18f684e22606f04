import { Callbacks } from './callbacks.ts';
import { FaultRules } from './faults.ts';
import { Journal } from './journal.ts';
import { Ledger } from './ledger.ts';
import type { Scenario } from './scenario.ts';
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
type StatePart = (typeof stateParts)[number];

export type SimulatorState = ReturnType<typeof createState>;

/** All that a simulated gateway remembers. Bounded. May change while requests are in flight. */
export function createState({ scenario, keys, clock: realClock }: StateOptions) {
  // A login without keys is known, but all its requests are rejected.
  const noKeys: GatewayKeys = { controlKeys: [], publicKeys: [] };
  const firstKeys = Object.keys(scenario.logins).map((login) => [login, keys.get(login) ?? noKeys] as const);
  const state = {
    scenario,
    /** The keys that are accepted now, of every login. Several of a kind simulate a rotation. */
    keys: new Map(firstKeys),
    /** A real clock, in milliseconds since 1970, plus an offset that may change while it runs. */
    clock: { offsetSeconds: 0, now: (): number => realClock() + state.clock.offsetSeconds * 1000 },
    faults: new FaultRules(scenario.faults),
    journal: new Journal(1000),
    ledger: new Ledger(scenario.orders, 1000),
    nonces: new NonceMemory(200_000),
    callbacks: new Callbacks(),
  };
  const resets: Readonly<Record<StatePart, () => void>> = {
    journal: () => state.journal.clear(),
    nonces: () => state.nonces.clear(),
    transfers: () => {
      state.ledger.reset();
      state.callbacks.clear();
    },
    faults: () => state.faults.reset(),
    clock: () => {
      state.clock.offsetSeconds = 0;
    },
    keys: () => {
      for (const [login, keys] of firstKeys) state.keys.set(login, keys);
    },
  };
  return {
    ...state,
    reset(parts: readonly StatePart[] = stateParts): void {
      for (const part of parts) resets[part]();
    },
  };
}

/**
 * The nonces seen within the timestamp window. RFC 5849 section 3.3 lets a server forget a nonce once its timestamp is
 * rejected anyway; what the gateway does is not shown (docs/gateway-interface.md section 5.4).
 */
export class NonceMemory {
  readonly #expiries = new Map<string, number>();
  readonly #capacity: number;

  /** Beyond `capacity` the oldest are dropped: memory stays bounded, but those could be replayed. */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /**
   * Records the nonce; `false` if it was seen before. Times in seconds.
   *
   * @param expiry when the timestamp of this nonce is rejected
   */
  remember(consumerKey: string, nonce: string, expiry: number, now: number): boolean {
    for (const [oldest, expiry] of this.#expiries) {
      if (expiry >= now && this.#expiries.size < this.#capacity) break;
      this.#expiries.delete(oldest);
    }
    const entry = JSON.stringify([consumerKey, nonce]);
    if (this.#expiries.has(entry)) return false;
    this.#expiries.set(entry, expiry);
    return true;
  }

  clear(): void {
    this.#expiries.clear();
  }
}
