import type { KeyKind } from '../../src/oauth1/methods.ts';
import { Random } from '../support/random.ts';
import {
  type Action,
  isPayment,
  type OperationName,
  operationNames,
  type Schedule,
  type Step,
} from './schedule.ts';

/** Milliseconds between the gateway's switch and the new version in Vault: as long as people take. */
const pauses = [0, 5_000, 30_000, 60_000, 120_000];
/** Milliseconds of an outage or a hang of the source. */
const outages = [3_000, 12_000, 40_000];

/** Rotations with pauses of up to two minutes; reloads, restarts and outages of Vault before, between and after. */
export function generatePauses(seed: number): Schedule {
  const random = new Random(seed, 'pauses');
  const instances = random.int(1, 2);
  const steps = new Steps(random);
  const operations = steps.operations();
  let at = random.int(3, 8) * 1_000;
  for (let switches = random.int(1, 2), version = 2; switches > 0; switches -= 1, version += 1) {
    const first = at;
    at += random.pick(pauses) + random.int(0, 1_500);
    const [gateway, vault] = random.pick([
      [first, at],
      [first, at],
      [at, first],
      [first, first],
    ] as const);
    const fields = steps.rotation(0, version, gateway, vault);
    if (random.chance(0.15)) steps.add(at + 2_000, { do: 'gateway-accept', ...fields, keys: ['gone'] });
    if (random.chance(0.4)) steps.sourceTrouble(first, at);
    for (let count = random.pick([0, 0, 1, 2]); count > 0; count -= 1) {
      const instance = random.int(0, instances - 1);
      steps.add(random.int(first, at + 2_000), { do: random.pick(['reload', 'restart']), instance });
    }
    at += random.int(8, 20) * 1_000;
  }
  steps.traffic({ login: 0, instances, operations, from: 0, to: at, every: random.pick([300, 600, 1_500]) });
  const nodes = random.pick([1, 1, 2]);
  const [canary, fresh] = [random.chance(0.3), random.pick([2_000, 60_000])];
  const name = `pauses ${seed}`;
  return { name, seed, instances, logins: 1, nodes, maxInFlight: 500, canary, fresh, steps: steps.sorted() };
}

/** The gateway replaces the keys of some logins, while others are in use; few slots, and a source that may hang. */
export function generateLogins(seed: number): Schedule {
  const random = new Random(seed, 'logins');
  const logins = random.pick([2, 2, 5, 5, 20, 45]);
  const affected = random.pick([1, Math.min(logins - 1, 20), logins]);
  const steps = new Steps(random);
  const gateway = random.int(3, 6) * 1_000;
  const pause = random.pick(logins > 5 ? [2_000, 6_000] : [2_000, 15_000, 40_000]);
  const hangs = random.chance(0.5);
  if (hangs) {
    steps.add(gateway - random.int(0, 2_000), { do: 'vault-hang', on: true });
    steps.add(gateway + pause, { do: 'vault-hang', on: false });
  }
  const to = gateway + pause + 5_000;
  for (let login = 0; login < logins; login += 1) {
    const operations = steps.operations();
    if (login < affected) {
      const apart = random.chance(0.5) ? 0 : random.int(0, 1_000);
      steps.rotation(login, 2, gateway + apart, gateway + pause + (random.chance(0.5) ? 0 : apart));
    }
    const every = affected === 1 && login === 0 ? 60 : random.int(350, 900);
    steps.traffic({ login, instances: 1, operations, from: 0, to, every });
  }
  const cold = hangs && random.chance(0.3) ? 1 : 0;
  if (cold > 0) {
    const operations = steps.operations();
    steps.traffic({ login: logins, instances: 1, operations, from: gateway, to, every: 100 });
  }
  const maxInFlight = affected + cold <= 2 ? random.pick([40, 500]) : 500;
  const [canary, fresh] = [random.chance(0.2), random.pick([2_000, 60_000])];
  const all = { instances: 1, logins: logins + cold, nodes: 1, maxInFlight };
  return { name: `logins ${seed}`, seed, ...all, canary, fresh, steps: steps.sorted() };
}

/** Milliseconds for which a login is absent. */
const absences = [1_000, 5_000, 30_000, 90_000];

/** Vault forgets, denies or deletes logins and has them again, before, during and after rotations. */
export function generateAbsences(seed: number): Schedule {
  const random = new Random(seed, 'absences');
  const [instances, logins] = [random.int(1, 2), random.pick([1, 1, 2, 5])];
  const steps = new Steps(random);
  let at = random.int(3, 8) * 1_000;
  for (let count = random.int(1, 3), version = 2; count > 0; count -= 1, version += 1) {
    const end = at + random.pick(absences) + random.int(0, 1_500);
    const login = random.int(0, logins - 1);
    const moments = [at - 2_000, at + 500, end - 500, end + 200, end + 3_000] as const;
    if (random.chance(0.7)) steps.rotation(login, version, random.pick(moments), random.pick(moments));
    if (random.chance(0.2)) steps.add(random.pick(moments), { do: 'vault-rollback', login, version: 1 });
    steps.absence(at, end, random.chance(0.5) ? login : undefined, login);
    if (random.chance(0.2)) steps.sourceTrouble(at, end);
    const instance = random.int(0, instances - 1);
    const restart = { do: random.chance(0.7) ? 'reload' : 'restart', instance } as const;
    if (random.chance(0.3)) steps.add(random.pick(moments), restart);
    at = end + random.pick([5_000, 20_000, 70_000]);
  }
  const every = random.pick([300, 600, 1_500]) * Math.sqrt(logins);
  for (let login = 0; login < logins; login += 1) {
    steps.traffic({ login, instances, operations: steps.operations(), from: 0, to: at, every });
  }
  const [canary, fresh] = [random.chance(0.2), random.pick([2_000, 60_000])];
  const all = { instances, logins, nodes: 1, maxInFlight: 500, canary, fresh };
  return { name: `absences ${seed}`, seed, ...all, steps: steps.sorted() };
}

interface Traffic {
  readonly login: number;
  readonly instances: number;
  readonly operations: readonly OperationName[];
  readonly from: number;
  readonly to: number;
  /** Milliseconds between two requests, on average. */
  readonly every: number;
}

class Steps {
  readonly #random: Random;
  readonly #steps: Step[] = [];

  constructor(random: Random) {
    this.#random = random;
  }

  add(at: number, action: Action): void {
    this.#steps.push({ at: Math.max(0, Math.round(at)), action });
  }

  sorted(): readonly Step[] {
    return this.#steps.toSorted((a, b) => a.at - b.at);
  }

  /** Those of one caller. */
  operations(): readonly OperationName[] {
    const random = this.#random;
    if (random.chance(0.5)) return operationNames;
    const payments = operationNames.filter((name) => isPayment(name));
    return random.chance(0.4) ? payments : operationNames.filter((name) => !isPayment(name));
  }

  /** One or both keys change, at the gateway and in Vault. Returns one of them. */
  rotation(login: number, version: number, gateway: number, vault: number): { login: number; kind: KeyKind } {
    const [control, rsa] = [`c${version}`, `r${version}`];
    const [hmac, both] = [this.#random.chance(0.5), this.#random.chance(0.5)];
    this.add(vault, {
      do: 'vault-write',
      login,
      ...(both || hmac ? { control } : {}),
      ...(both || !hmac ? { rsa } : {}),
    });
    if (both || hmac)
      this.add(gateway, { do: 'gateway-accept', login, kind: 'control_key', keys: [control] });
    if (both || !hmac) this.add(gateway, { do: 'gateway-accept', login, kind: 'private_key', keys: [rsa] });
    return { login, kind: hmac ? 'control_key' : 'private_key' };
  }

  /** An outage or a hang of the source, before, between or after the steps of a rotation. */
  sourceTrouble(first: number, last: number): void {
    const random = this.#random;
    const begin = random.pick([first - 4_000, first + 1_000, last - 1_000, last + 500]);
    const end = begin + random.pick(outages);
    if (random.chance(0.5)) {
      this.add(begin, { do: 'vault-hang', on: true });
      this.add(end, { do: 'vault-hang', on: false });
    } else {
      this.add(begin, { do: 'vault-outage', down: true });
      this.add(end, { do: 'vault-outage', down: false });
    }
  }

  /** @param about the login that is forgotten or denied; `undefined`: all of them @param deleted the one that is deleted */
  absence(begin: number, end: number, about: number | undefined, deleted: number): void {
    const random = this.#random;
    const version = random.int(1, 3);
    const which = about === undefined ? {} : { login: about };
    const [first, last] = random.pick<readonly [Action, Action]>([
      [
        { do: 'vault-forget', ...which },
        { do: 'vault-remember', ...which },
      ],
      [
        { do: 'vault-deny', ...which },
        { do: 'vault-permit', ...which },
      ],
      [
        { do: 'vault-delete-all', login: deleted },
        { do: 'vault-undelete', login: deleted },
      ],
      [
        { do: 'vault-delete', login: deleted, version },
        { do: 'vault-undelete', login: deleted },
      ],
    ]);
    this.add(begin, first);
    this.add(end, last);
    // What was denied or forgotten may be deleted by then.
    if (random.chance(0.1)) this.add(end - 300, { do: 'vault-delete-all', login: deleted });
  }

  traffic({ login, instances, operations, from, to, every }: Traffic): void {
    const random = this.#random;
    for (let at = from; at < to; at += random.next() * 2 * every) {
      const operation = random.pick(operations);
      this.add(at, { do: 'request', login, instance: random.int(0, instances - 1), operation });
    }
  }
}
