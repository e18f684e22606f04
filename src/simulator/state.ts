import { FaultRules } from './faults.ts';
import { Journal } from './journal.ts';
import { Ledger } from './orders.ts';
import type { VerificationFailure } from './rejections.ts';
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
type StatePart = (typeof stateParts)[number];

export type SimulatorState = ReturnType<typeof createState>;

/** All that a simulated gateway remembers. Bounded. May change while requests are in flight. */
export function createState({ scenario, keys, clock: realClock }: StateOptions) {
  const state = {
    scenario,
    accounts: new Accounts(scenario.logins, keys),
    /** A real clock, in milliseconds since 1970, plus an offset that may change while it runs. */
    clock: { offsetSeconds: 0, now: (): number => realClock() + state.clock.offsetSeconds * 1000 },
    faults: new FaultRules(scenario.faults),
    journal: new Journal(1000),
    ledger: new Ledger(scenario.orders, { orders: 1000, responses: 10_000 }),
    nonces: new NonceMemory(200_000),
    seen: new RequestCounter(),
  };
  const resets: Readonly<Record<StatePart, () => void>> = {
    journal: () => {
      state.journal.clear();
      state.seen.clear();
    },
    nonces: () => state.nonces.clear(),
    transfers: () => state.ledger.reset(),
    faults: () => state.faults.reset(),
    clock: () => {
      state.clock.offsetSeconds = 0;
    },
    keys: () => state.accounts.reset(),
  };
  return {
    ...state,
    reset(parts: readonly StatePart[] = stateParts): void {
      for (const part of parts) resets[part]();
    },
  };
}

/** A kind of request. */
interface RequestKey {
  readonly operation: string;
  /** Only of accepted requests; others may claim any login. */
  readonly login?: string;
  /** Index of the accepted key among the login's keys of that kind at the time. */
  readonly keyIndex?: number;
  /** Absent for accepted requests. */
  readonly rejection?: VerificationFailure | undefined;
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
  accepted(filter: Partial<RequestKey> = {}): number {
    return this.count({ ...filter, rejection: undefined });
  }

  clear(): void {
    this.#counts.clear();
  }
}

function textOf({ operation, login, keyIndex, rejection }: RequestKey): string {
  return JSON.stringify([operation, login, keyIndex, rejection]);
}

/** The logins of the simulated gateway: the keys that it accepts, and which logins are blocked. */
class Accounts {
  readonly #initial: ReadonlyMap<string, GatewayKeys>;
  #keys: Map<string, GatewayKeys>;
  readonly #blocked = new Set<string>();

  /** A login of the scenario without keys is known, but all its requests are rejected. */
  constructor(logins: Scenario['logins'], keys: ReadonlyMap<string, GatewayKeys>) {
    const none: GatewayKeys = { controlKeys: [], publicKeys: [] };
    this.#initial = new Map(Object.keys(logins).map((login) => [login, keys.get(login) ?? none]));
    this.#keys = new Map(this.#initial);
  }

  /** The keys that are accepted now, of every login. */
  get keys(): ReadonlyMap<string, GatewayKeys> {
    return this.#keys;
  }

  isBlocked(login: string): boolean {
    return this.#blocked.has(login);
  }

  /** Replaces the accepted keys from the next request on. Several keys of a kind simulate a rotation. */
  setKeys(login: string, keys: GatewayKeys): void {
    this.#checkKnown(login);
    this.#keys.set(login, keys);
  }

  /** Rejects every request of the login with 403, or stops doing so. */
  setBlocked(login: string, blocked: boolean): void {
    this.#checkKnown(login);
    if (blocked) this.#blocked.add(login);
    else this.#blocked.delete(login);
  }

  /** Returns to the keys of the start, without blocked logins. */
  reset(): void {
    this.#keys = new Map(this.#initial);
    this.#blocked.clear();
  }

  #checkKnown(login: string): void {
    if (!this.#keys.has(login)) throw new TypeError(`the scenario has no login ${login}`);
  }
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

  get size(): number {
    return this.#expiries.size;
  }
}
