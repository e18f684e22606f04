import type { KeyKind } from '../../src/oauth1/methods.ts';
import { kindOf, type OperationName } from './schedule.ts';
import type { Gateway } from './world.ts';

/** Milliseconds from the choice of a key to the first byte. */
const longestSignature = 20;
/** Milliseconds of the steps of the back-off; the last one repeats. */
const trialSteps = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000];
/** If no 403 speaks against a key. */
const readSteps = [1_000, 1_000, 1_000, 1_000, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000];
/** Reads past the cache for one switch. */
const readsPerSwitch = 2;
/** Rounds of trials per switch: a 403 for the last accepted key can arrive after the first round and start another. */
const roundsPerSwitch = 2;

interface Attempts {
  firstAt: number;
  count: number;
}

/** Attempts for one kind of key since its last switch. */
interface Window {
  /** By operation. */
  readonly trials: Map<OperationName, Attempts>;
  /** Of Vault, past the cache. */
  readonly reads: Attempts;
}

/**
 * Limits what a switch may cost one instance. For each kind of key: two refreshes past the cache. For each
 * read-only operation that needs the key: two rounds of as many trials as the ring has keys. While no key is
 * accepted: one more round per step of the back-off.
 *
 * A switch is a change of the ring, or the first 403 for the last accepted key after a change of what the gateway
 * accepts, for whatever reason. A trial is a retry with a key that is not known to be accepted. Trials are counted
 * per operation, because one that is not enabled for the login is rejected with every key and must not delay the
 * others. While the gateway's nodes accept different keys, or responses overtake each other, each response may look
 * like another switch: then only the back-off limits them.
 */
export class SwitchCosts {
  readonly #gateway: Pick<Gateway, 'changes' | 'agrees'>;
  readonly #report: (violation: string) => void;
  readonly #windows: Record<KeyKind, Window> = { control_key: newWindow(), private_key: newWindow() };
  /** Number of changes of the gateway when the instance last noticed one. */
  readonly #noticed: Readonly<Record<'key' | 'other', Record<KeyKind, number>>> = {
    key: { control_key: 0, private_key: 0 },
    other: { control_key: 0, private_key: 0 },
  };
  readonly #sizes: Record<KeyKind, number> = { control_key: 1, private_key: 1 };

  constructor(gateway: Pick<Gateway, 'changes' | 'agrees'>, report: (violation: string) => void) {
    this.#gateway = gateway;
    this.#report = report;
  }

  ringChanged(kind: KeyKind, size: number): void {
    this.#sizes[kind] = size;
    this.#windows[kind] = newWindow();
  }

  /** The last accepted key was rejected, perhaps for another reason. */
  noticed(kind: KeyKind, aboutKey: boolean): void {
    const changes = this.#gateway.changes(kind);
    const noticed = this.#noticed[aboutKey ? 'key' : 'other'];
    if (noticed[kind] === changes) return;
    noticed[kind] = changes;
    this.#windows[kind] = newWindow();
  }

  /** A request was accepted that was sent before another one was rejected: responses overtake each other. */
  overtaken(kind: KeyKind): void {
    this.#windows[kind] = newWindow();
  }

  trial(operation: OperationName, now: number): void {
    const kind = kindOf[operation];
    if (!this.#gateway.agrees(kind)) return;
    const { trials } = this.#windows[kind];
    const ofOperation = trials.get(operation) ?? { firstAt: now, count: 0 };
    trials.set(operation, ofOperation);
    ofOperation.count += 1;
    const { firstAt, count } = ofOperation;
    const most =
      this.#sizes[kind] * (roundsPerSwitch + stepsIn(now + longestSignature - firstAt, trialSteps));
    if (count > most) {
      this.#report(`trial ${count} of ${operation} in ${now - firstAt} ms; ${most} are allowed`);
    }
  }

  /** The ring was refreshed past the cache because of a request that needs this kind of key. */
  read(kind: KeyKind, now: number): void {
    if (!this.#gateway.agrees(kind)) return;
    const { reads } = this.#windows[kind];
    if (reads.count === 0) reads.firstAt = now;
    reads.count += 1;
    const most = readsPerSwitch + stepsIn(now - reads.firstAt, readSteps);
    if (reads.count > most) {
      this.#report(`read ${reads.count} past the cache in ${now - reads.firstAt} ms; ${most} are allowed`);
    }
  }
}

function newWindow(): Window {
  return { trials: new Map(), reads: { firstAt: 0, count: 0 } };
}

/** How many steps begin within the given number of milliseconds after the first attempt. */
function stepsIn(milliseconds: number, steps: readonly number[]): number {
  let [count, end] = [0, 0];
  for (;;) {
    end += steps[count] ?? steps.at(-1) ?? 0;
    if (end > milliseconds) return count;
    count += 1;
  }
}
