import { Random } from '../support/random.ts';
import type { CanaryHooks } from './canaries.ts';
import { Conditions } from './conditions.ts';
import { Counts } from './counts.ts';
import { type End, Instance, type Upstream } from './instance.ts';
import { Observer, type Sent } from './observer.ts';
import { type Action, describe, isPayment, kindOf, type Schedule } from './schedule.ts';
import { epoch, VirtualTime } from './virtual-time.ts';
import { apply, Gateway, type Judged, Vault } from './world.ts';

export interface Ended {
  readonly operation: string;
  readonly end: End;
  readonly startedAt: number;
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

class Model implements Run {
  readonly time = new VirtualTime();
  readonly violations: string[] = [];
  readonly timeline: string[] = [];
  readonly ended: Ended[] = [];
  readonly counts = new Counts();
  readonly #canary: boolean;
  readonly #fresh: number;
  readonly #random: Random;
  readonly #vault: Vault;
  readonly #gateway: Gateway;
  readonly #conditions: Conditions;
  readonly #instances: { readonly instance: Instance; readonly observer: Observer }[];
  /** Attempts by request. */
  readonly #attempts = new Map<number, number>();
  #requests = 0;

  constructor(schedule: Schedule) {
    const { seed, nodes, instances, canary, fresh, steps } = schedule;
    this.counts.addSchedule(schedule);
    this.#canary = canary;
    this.#fresh = fresh;
    this.#random = new Random(seed + 1);
    this.#vault = new Vault(this.time, this.#random);
    this.#gateway = new Gateway(nodes, this.time, this.#random);
    this.#conditions = new Conditions(this.#vault, this.#gateway);
    this.#instances = Array.from({ length: instances }, (_, index) => this.#newInstance(index));
    for (const { at, action } of steps) this.time.at(at, () => this.#do(action));
  }

  #do(action: Action): void {
    if (action.do === 'request') {
      void this.#request(action);
      return;
    }
    this.#note(describe(action));
    if (action.do === 'reload' || action.do === 'restart') {
      if (action.do === 'reload') {
        this.#instances[action.instance]?.instance.reload();
      } else this.#instances[action.instance] = this.#newInstance(action.instance);
      return;
    }
    apply(action, this.#vault, this.#gateway);
    this.#conditions.update(this.time.now);
  }

  async #request({ instance: index, operation }: Extract<Action, { do: 'request' }>): Promise<void> {
    const one = this.#instances[index];
    if (one === undefined) return;
    const id = this.#nextRequest();
    const startedAt = this.time.now;
    if (this.#canary && isPayment(operation)) {
      one.observer.canaryRule.admitted(id, kindOf[operation], startedAt);
    }
    const end = await one.instance.send(id, operation);
    this.ended.push({ operation, end, startedAt });
    this.#note(`instance ${index}    #${id} ${operation} of ${startedAt} ended: ${end}`);
    this.counts.add(`ended: ${isPayment(operation) ? 'payment' : 'read'}, ${end}`);
    one.observer.ended(id, operation, end, startedAt, this.time.now);
    this.#collect(index, one.observer);
  }

  #newInstance(index: number): { instance: Instance; observer: Observer } {
    const observer = new Observer(this.#conditions, this.#gateway);
    const instance = new Instance({
      time: this.time,
      fresh: this.#fresh,
      random: this.#random,
      vault: this.#vault,
      forward: async (upstream) => {
        const judged = await this.#forward(index, observer, upstream);
        if (judged === undefined) return undefined;
        const { status, skew } = judged;
        const date = new Date(epoch + this.time.now + skew).toUTCString();
        return { status, headers: { date }, body: Buffer.alloc(0) };
      },
      ringChanged: (ring) => {
        observer.ringChanged(ring, this.time.now);
        const versions = ring?.map(({ kind, version }) => `${kind} ${version}`) ?? ['removed'];
        this.#note(`instance ${index}    ring: ${versions.join(', ')}`);
      },
      refresh: (kind) => {
        this.counts.add('reads of Vault past the cache');
        this.#note(`instance ${index}    reads Vault past the cache`);
        observer.reread(kind, this.time.now);
        this.#collect(index, observer);
      },
      canary: this.#canary ? this.#canaryHooks(index, observer) : undefined,
    });
    return { instance, observer };
  }

  #nextRequest(): number {
    this.#requests += 1;
    return this.#requests;
  }

  #canaryHooks(index: number, observer: Observer): CanaryHooks {
    const rule = observer.canaryRule;
    return {
      began: (kind, configuration) => {
        const id = this.#nextRequest();
        rule.began(kind, id, configuration, this.time.now);
        this.#note(`instance ${index}    #${id} is a canary`);
        this.#collect(index, observer);
        return id;
      },
      ended: (kind, id, status) => {
        this.counts.add(`canary: ${status ?? 'no response'}`);
        rule.ended(kind, id, status, this.time.now);
      },
      waited: (milliseconds) => {
        rule.waited(milliseconds);
        this.#collect(index, observer);
      },
    };
  }

  async #forward(index: number, observer: Observer, upstream: Upstream): Promise<Judged | undefined> {
    const attempts = this.#attempts.get(upstream.request) ?? 0;
    this.#attempts.set(upstream.request, attempts + 1);
    this.counts.add(attempts > 0 ? 'upstream requests, sent again' : 'upstream requests, first');
    const sent: Sent = { ...upstream, sentAt: this.time.now, isRetry: attempts > 0 };
    observer.sent(sent);
    this.#collect(index, observer);
    const there = this.#random.int(1, this.#gateway.latency * 2);
    const back = this.#random.int(1, this.#gateway.latency * 2);
    const { operation, key, request } = upstream;
    const about = `#${request} ${operation} ${key}, sent ${sent.sentAt}`;
    if (there + back > upstream.timeout) {
      await this.time.wait(upstream.timeout);
      observer.timedOut(sent);
      this.#note(`instance ${index}    ${about}: timeout`);
      return undefined;
    }
    await this.time.wait(there);
    const judged = this.#gateway.judge(operation, key);
    await this.time.wait(back);
    observer.received(sent, judged, this.time.now);
    const why = judged.status === 403 && !judged.aboutKey ? ' (not about the key)' : '';
    this.#note(`instance ${index}    ${about}: ${judged.status}${why}`);
    if (judged.status === 403 && isPayment(operation)) this.#paymentRejected(index, observer, sent, judged);
    return judged;
  }

  #paymentRejected(index: number, observer: Observer, { request, operation }: Sent, judged: Judged): void {
    const begin = `payment rejected ${this.#canary ? 'with' : 'without'} the canary, `;
    if (!judged.aboutKey) this.counts.add(`${begin}not about the key`);
    else if (!this.#canary) this.counts.add(`${begin}because of its key`);
    else {
      const excuse = observer.paymentRejected(request, operation, judged);
      this.counts.add(`${begin}${excuse ?? 'a violation'}`);
      this.#collect(index, observer);
    }
  }

  #note(text: string): void {
    this.timeline.push(`${String(this.time.now).padStart(7)} ms  ${text}`);
  }

  #collect(index: number, observer: Observer): void {
    for (const text of observer.violations.splice(0)) {
      this.violations.push(`${this.time.now} ms, instance ${index}: ${text}`);
      this.#note(`instance ${index}    VIOLATION: ${text}`);
    }
  }
}
