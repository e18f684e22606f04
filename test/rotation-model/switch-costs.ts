import type { KeyKind } from '../../src/oauth1/methods.ts';
import { kindOf, type OperationName } from './schedule.ts';
import type { Gateway } from './world.ts';

/** Milliseconds from the choice of a key to the first byte. */
const longestSignature = 20;
/** Milliseconds of the steps of the back-off; the last one repeats. */
const trialSteps = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000];
/** Vault may be some seconds later than the gateway: reads past the cache become rarer after the fifth. */
const readSteps = [1_000, 1_000, 1_000, 1_000, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000];
/** Reads past the cache for one switch. */
const readsPerSwitch = 2;
/** Rounds of trials for one switch: a 403 for the key accepted last can come after the first and begin another. */
const roundsPerSwitch = 2;

interface Attempts {
  firstAt: number;
  count: number;
}

/** What happened for one kind of key since its last switch. */
interface Window {
  /** By operation. */
  readonly trials: Map<OperationName, Attempts>;
  /** Of Vault, past the cache. */
  readonly reads: Attempts;
}

/**
 * What a switch may cost one instance: for each kind of key two reads of Vault past the cache, and for each
 * read-only operation that needs the key two rounds of as many trials as the ring has keys; while nothing
 * helps, one round more in each step of the back-off.
 *
 * A switch is a change of the ring, or the first 403 for the key accepted last after a change of what the
 * gateway accepts, for whatever reason. A trial is a request that is sent again with a key that is not known to
 * be accepted. Trials are counted by operation, because one that is not enabled for the login is rejected with
 * every key and must not delay the others. While the nodes of the gateway accept different keys, or responses
 * overtake each other, each response may look like another switch: then only the back-off's rules hold.
 */
export class SwitchCosts {
  readonly #gateway: Pick<Gateway, 'changes' | 'agrees'>;
  readonly #report: (violation: string) => void;
  readonly #windows: Record<KeyKind, Window> = { control_key: newWindow(), private_key: newWindow() };
  /** How often the gateway had changed when that was last noticed. */
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

  /** The key accepted last was rejected, perhaps for another reason. */
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

  /** The ring was read past the cache, because of a request that needs this kind of key. */
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

/** How many steps begin within so many milliseconds after the first attempt. */
function stepsIn(milliseconds: number, steps: readonly number[]): number {
  let [count, end] = [0, 0];
  for (;;) {
    end += steps[count] ?? steps.at(-1) ?? 0;
    if (end > milliseconds) return count;
    count += 1;
  }
}
