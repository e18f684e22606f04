import { Random } from '../support/random.ts';
import { Conditions } from './conditions.ts';
import { Counts } from './counts.ts';
import { type End, Instance, type Upstream } from './instance.ts';
import { LookRate } from './look-rate.ts';
import { Observer, type Sent } from './observer.ts';
import { type Action, describe, isPayment, loginNames, loginOf, type Schedule } from './schedule.ts';
import { epoch, VirtualTime } from './virtual-time.ts';
import { apply, Gateway, type Judged, Vault } from './world.ts';

interface Ended {
  readonly login: string;
  readonly operation: string;
  readonly end: End;
  readonly startedAt: number;
  readonly endedAt: number;
}

export interface Run {
  /** Each with its time. */
  readonly violations: readonly string[];
  /** The events, one line each. */
  readonly timeline: readonly string[];
  readonly ended: readonly Ended[];
  /** Counts of the schedule's steps and of the events. */
  readonly counts: Counts;
}

/** Runs a schedule to its end. */
export async function run(schedule: Schedule): Promise<Run> {
  const model = new Model(schedule);
  await model.time.run();
  return model;
}

/** The world of one login. */
interface Login {
  readonly vault: Vault;
  readonly gateway: Gateway;
  readonly conditions: Conditions;
}

/** An instance with the observer of each login. */
interface Observed {
  readonly instance: Instance;
  readonly observers: ReadonlyMap<string, Observer>;
}

class Model implements Run {
  readonly time = new VirtualTime();
  readonly violations: string[] = [];
  readonly timeline: string[] = [];
  readonly ended: Ended[] = [];
  readonly counts = new Counts();
  readonly #fresh: number;
  readonly #random: Random;
  readonly #maxInFlight: number;
  readonly #names: readonly string[];
  readonly #logins: ReadonlyMap<string, Login>;
  readonly #instances: Observed[];
  /** Attempts by request. */
  readonly #attempts = new Map<number, number>();
  /** Logins by request. */
  readonly #loginOf = new Map<number, string>();
  #requests = 0;

  constructor(schedule: Schedule) {
    const { seed, nodes, instances, logins, maxInFlight, fresh, steps } = schedule;
    this.counts.addSchedule(schedule);
    this.#fresh = fresh;
    this.#maxInFlight = maxInFlight;
    this.#random = new Random(seed + 1);
    this.#names = loginNames(logins);
    this.#logins = new Map(this.#names.map((name) => [name, this.#newLogin(nodes)]));
    this.#instances = Array.from({ length: instances }, (_, index) => this.#newInstance(index));
    for (const { at, action } of steps) this.time.at(at, () => this.#do(action));
  }

  #do(action: Action): void {
    if (action.do === 'request') {
      void this.#request(action);
      return;
    }
    this.#note(describe(action));
    if (action.do === 'reload') this.#instances[action.instance]?.instance.reload();
    else if (action.do === 'restart') this.#instances[action.instance] = this.#newInstance(action.instance);
    else this.#change(action);
  }

  /** An event of one login, or of all of them. */
  #change(action: Action): void {
    const login = loginOf(action);
    const changed = login === undefined ? this.#names : this.#names.slice(login, login + 1);
    for (const name of changed) {
      const { vault, gateway, conditions } = this.#loginNamed(name);
      apply(action, vault, gateway);
      conditions.update(this.time.now);
    }
  }

  async #request({
    instance: index,
    login = 0,
    operation,
  }: Extract<Action, { do: 'request' }>): Promise<void> {
    const one = this.#instances[index];
    const name = this.#names[login];
    if (one === undefined || name === undefined) return;
    const observer = observerOf(one.observers, name);
    const id = this.#nextRequest(name);
    const startedAt = this.time.now;
    observer.sourceRule.arrived(id, startedAt);
    const end = await one.instance.send(id, name, operation);
    this.ended.push({ login: name, operation, end, startedAt, endedAt: this.time.now });
    this.#note(`instance ${index}    #${id} ${name} ${operation} of ${startedAt} ended: ${end}`);
    this.counts.add(`ended: ${isPayment(operation) ? 'payment' : 'read'}, ${end}`);
    observer.ended({ id, operation, end, startedAt }, this.time.now);
    this.#collect(index, observer);
  }

  #newLogin(nodes: number): Login {
    const vault = new Vault(this.time, this.#random);
    const gateway = new Gateway(nodes, this.time, this.#random);
    return { vault, gateway, conditions: new Conditions(vault, gateway) };
  }

  #loginNamed(name: string): Login {
    const login = this.#logins.get(name);
    if (login === undefined) throw new TypeError(`no login ${name}`);
    return login;
  }

  #newInstance(index: number): Observed {
    const observers = new Map(
      [...this.#logins].map(([name, { conditions, gateway }]) => [
        name,
        new Observer(conditions, gateway, { logins: this.#names.length, ttl: this.#fresh }),
      ]),
    );
    const rate = new LookRate((violation) => this.#violation(index, violation));
    const instance = new Instance({
      time: this.time,
      fresh: this.#fresh,
      random: this.#random,
      vaults: new Map([...this.#logins].map(([name, { vault }]) => [name, vault])),
      maxInFlight: this.#maxInFlight,
      forward: async (upstream) => {
        const name = this.#loginOf.get(upstream.request) ?? '';
        const judged = await this.#forward(index, name, observerOf(observers, name), upstream);
        if (judged === undefined) return undefined;
        const { status, skew } = judged;
        const date = new Date(epoch + this.time.now + skew).toUTCString();
        return { status, headers: { date }, body: Buffer.alloc(0) };
      },
      ringChanged: (name, ring) => {
        observerOf(observers, name).ringChanged(ring, this.time.now);
        const versions = ring?.map(({ kind, version }) => `${kind} ${version}`) ?? ['removed'];
        this.#note(`instance ${index}    ring of ${name}: ${versions.join(', ')}`);
      },
      refresh: (name, kind) => {
        this.counts.add('reads of Vault past the cache');
        this.#note(`instance ${index}    reads the keys of ${name} past the cache`);
        rate.looked(this.time.now);
        const observer = observerOf(observers, name);
        observer.reread(kind, this.time.now);
        this.#collect(index, observer);
      },
      sourceReported: (up) => {
        for (const observer of observers.values()) observer.sourceReported(up, this.time.now);
      },
      lookedAgain: () => {
        this.#note(`instance ${index}    looks again`);
        for (const observer of observers.values()) observer.lookedAgain(this.time.now);
      },
    });
    return { instance, observers };
  }

  #nextRequest(login: string): number {
    this.#requests += 1;
    this.#loginOf.set(this.#requests, login);
    return this.#requests;
  }

  async #forward(
    index: number,
    login: string,
    observer: Observer,
    upstream: Upstream,
  ): Promise<Judged | undefined> {
    const { gateway } = this.#loginNamed(login);
    const attempts = this.#attempts.get(upstream.request) ?? 0;
    this.#attempts.set(upstream.request, attempts + 1);
    this.counts.add(attempts > 0 ? 'upstream requests, sent again' : 'upstream requests, first');
    const sent: Sent = { ...upstream, sentAt: this.time.now, isRetry: attempts > 0 };
    observer.sent(sent);
    this.#collect(index, observer);
    const there = this.#random.int(1, gateway.latency * 2);
    const back = this.#random.int(1, gateway.latency * 2);
    const { operation, key, request } = upstream;
    const about = `#${request} ${login} ${operation} ${key}, sent ${sent.sentAt}`;
    if (there + back > upstream.timeout) {
      await this.time.wait(upstream.timeout);
      observer.timedOut(sent);
      this.#note(`instance ${index}    ${about}: timeout`);
      return undefined;
    }
    await this.time.wait(there);
    const judged = gateway.judge(operation, key);
    await this.time.wait(back);
    observer.received(sent, judged, this.time.now);
    const why = judged.status === 403 && !judged.aboutKey ? ' (not about the key)' : '';
    this.#note(`instance ${index}    ${about}: ${judged.status}${why}`);
    if (judged.status === 403 && isPayment(operation))
      this.counts.add(`payment rejected, ${judged.aboutKey ? '' : 'not '}because of its key`);
    return judged;
  }

  #note(text: string): void {
    this.timeline.push(`${String(this.time.now).padStart(7)} ms  ${text}`);
  }

  #collect(index: number, observer: Observer): void {
    for (const text of observer.violations.splice(0)) this.#violation(index, text);
  }

  #violation(index: number, text: string): void {
    this.violations.push(`${this.time.now} ms, instance ${index}: ${text}`);
    this.#note(`instance ${index}    VIOLATION: ${text}`);
  }
}

function observerOf(observers: Observed['observers'], login: string): Observer {
  const observer = observers.get(login);
  if (observer === undefined) throw new TypeError(`no login ${login}`);
  return observer;
}
