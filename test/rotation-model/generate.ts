import type { KeyKind } from '../../src/oauth1/methods.ts';
import { Random } from '../support/random.ts';
import { type Action, isPayment, type OperationName, type Schedule, type Step } from './schedule.ts';

const kinds: readonly KeyKind[] = ['control_key', 'private_key'];

/** One login, and slots for all requests. */
const one = { logins: 1, maxInFlight: 100_000 };

/** A random schedule: some rotations, some failures, and requests throughout. */
export function generate(seed: number): Schedule {
  return new Generator(seed).schedule();
}

class Generator {
  readonly #seed: number;
  readonly #random: Random;
  readonly #steps: Step[] = [];
  readonly #length: number;
  readonly #nodes: number;
  readonly #instances: number;
  readonly #canary: boolean;
  readonly #fresh: number;
  /** When many requests arrive. */
  readonly #crowded: { readonly from: number; readonly to: number; readonly every: number }[] = [];
  /** Newest last. */
  readonly #names: Record<KeyKind, string[]> = { control_key: ['c1'], private_key: ['r1'] };

  constructor(seed: number) {
    this.#seed = seed;
    this.#random = new Random(seed);
    this.#length = this.#random.pick([5_000, 20_000, 60_000, 120_000]);
    this.#nodes = this.#random.pick([1, 1, 2, 3]);
    this.#instances = this.#random.int(1, 4);
    this.#canary = this.#random.chance(0.5);
    this.#fresh = this.#random.pick([2_000, 60_000]);
  }

  schedule(): Schedule {
    const random = this.#random;
    for (let count = random.int(1, 4); count > 0; count -= 1) this.#rotation();
    for (let count = random.int(0, 3); count > 0; count -= 1) this.#trouble();
    this.#traffic();
    const steps = this.#steps.toSorted((a, b) => a.at - b.at);
    const [seed, nodes, instances] = [this.#seed, this.#nodes, this.#instances];
    const [canary, fresh] = [this.#canary, this.#fresh];
    return { name: `rotations ${seed}`, seed, nodes, instances, ...one, canary, fresh, steps };
  }

  #add(at: number, action: Action): void {
    this.#steps.push({ at: Math.max(0, Math.round(at)), action });
  }

  /** A round time in the schedule, so that events coincide. */
  #moment(): number {
    return this.#random.int(0, this.#length / 100) * 100;
  }

  #newName(kind: KeyKind): string {
    const names = this.#names[kind];
    const name = `${kind === 'control_key' ? 'c' : 'r'}${names.length + 1}`;
    names.push(name);
    return name;
  }

  /** One or both keys change in Vault and at the gateway, in either order, or in only one of them. */
  #rotation(): void {
    const random = this.#random;
    const at = this.#moment();
    const changed = random.chance(0.5) ? kinds : [random.pick<KeyKind>(['control_key', 'private_key'])];
    if (random.chance(0.3)) this.#crowded.push({ from: at - 1_500, to: at + 2_500, every: 50 });
    const names = Object.fromEntries(changed.map((kind) => [kind, this.#nameFor(kind)]));
    const [control, rsa] = [names['control_key'], names['private_key']];
    const fields = { ...(control === undefined ? {} : { control }), ...(rsa === undefined ? {} : { rsa }) };
    if (random.chance(0.9)) this.#add(at, { do: 'vault-write', ...fields });
    for (const kind of changed) {
      const name = names[kind];
      if (name !== undefined && random.chance(0.85)) this.#gatewaySwitch(at + this.#lag(), kind, name);
    }
    if (random.chance(0.15)) this.#add(at + this.#lag(), { do: 'vault-delete' });
    if (random.chance(0.15)) this.#add(at + this.#lag(), { do: 'vault-rollback', version: random.int(1, 2) });
  }

  #nameFor(kind: KeyKind): string {
    return this.#random.chance(0.15)
      ? this.#random.pick(['', ...this.#names[kind]]) || this.#newName(kind)
      : this.#newName(kind);
  }

  #lag(): number {
    const random = this.#random;
    return random.pick([0, random.int(-50, 50), random.int(-2000, 2000), random.int(-15_000, 15_000)]);
  }

  #gatewaySwitch(at: number, kind: KeyKind, name: string): void {
    const random = this.#random;
    const others = random.chance(0.4)
      ? [random.pick(['', ...this.#names[kind]])].filter((one) => one !== '' && one !== name)
      : [];
    const apart = random.pick([0, 50, 1000]);
    for (let node = 0; node < this.#nodes; node += 1) {
      this.#add(at + node * apart, { do: 'gateway-accept', kind, keys: [name, ...others], node });
    }
    if (others.length > 0 && random.chance(0.7)) {
      const end = at + this.#nodes * apart + random.pick([100, 3000, 20_000]);
      for (let node = 0; node < this.#nodes; node += 1) {
        this.#add(end + node * apart, { do: 'gateway-accept', kind, keys: [name], node });
      }
    }
  }

  #trouble(): void {
    const random = this.#random;
    const at = this.#moment();
    const end = at + random.pick([200, 2000, 10_000, 40_000]);
    const operation = random.pick<OperationName>(['manager-balance', 'order-status-group', 'transfer']);
    const [begin, over] = random.pick<readonly [Action, Action]>([
      [
        { do: 'vault-outage', down: true },
        { do: 'vault-outage', down: false },
      ],
      [
        { do: 'vault-latency', latency: random.pick([300, 1500, 4000]) },
        { do: 'vault-latency', latency: 5 },
      ],
      [
        { do: 'gateway-latency', latency: random.pick([100, 700, 2500]) },
        { do: 'gateway-latency', latency: 5 },
      ],
      [
        { do: 'gateway-skew', on: true },
        { do: 'gateway-skew', on: false },
      ],
      [
        { do: 'gateway-shut-out', on: true },
        { do: 'gateway-shut-out', on: false },
      ],
      [
        { do: 'gateway-disable', operation, on: true },
        { do: 'gateway-disable', operation, on: false },
      ],
      [
        { do: 'gateway-disable', operation, on: true },
        { do: 'gateway-disable', operation, on: false },
      ],
    ]);
    this.#add(random.chance(0.2) ? 0 : at, begin);
    this.#add(end, over);
    if (random.chance(0.1)) this.#crowded.push({ from: at, to: Math.min(end, this.#length), every: 400 });
    if (random.chance(0.3)) {
      const instance = random.int(0, this.#instances - 1);
      this.#add(this.#moment(), { do: random.chance(0.7) ? 'reload' : 'restart', instance });
    }
  }

  #traffic(): void {
    const random = this.#random;
    const names: readonly [OperationName, ...OperationName[]] = random.chance(0.15)
      ? [random.pick<OperationName>(['transfer', 'pan-eligibility-send'])]
      : random.chance(0.3)
        ? ['order-status', 'transfer']
        : ['manager-balance', 'order-status', 'order-status-group', 'pan-eligibility-send', 'transfer'];
    const readShare = random.pick([0.5, 0.8, 0.95]);
    const request = (time: number): void => {
      const isRead = random.chance(readShare);
      const [first, ...rest] = names.filter((name) => isPayment(name) !== isRead);
      const operation = first === undefined ? names[0] : random.pick([first, ...rest]);
      const instance = random.int(0, this.#instances - 1);
      this.#add(time, { do: 'request', instance, operation });
    };
    let at = 0;
    const pause = this.#length / random.pick([15, 40, 80]);
    while (at < this.#length + 5000) {
      const burst = random.chance(0.1) ? random.int(2, 8) : 1;
      for (let count = 0; count < burst; count += 1) request(at);
      at += random.next() * 2 * pause;
    }
    for (const { from, to, every } of this.#crowded) {
      for (let time = Math.max(0, from); time < to; time += random.next() * 2 * every) request(time);
    }
  }
}
