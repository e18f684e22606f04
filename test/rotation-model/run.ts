import { Conditions } from './conditions.ts';
import { type End, Instance, type Upstream } from './instance.ts';
import { Observer, type Sent } from './observer.ts';
import { Random } from './random.ts';
import { type Action, describe, type Schedule } from './schedule.ts';
import { epoch, VirtualTime } from './virtual-time.ts';
import { apply, Gateway, type Judged, Vault } from './world.ts';

export interface Ended {
  readonly operation: string;
  readonly end: End;
  readonly startedAt: number;
}

export interface Run {
  /** Each with the time at which it was seen. */
  readonly violations: readonly string[];
  /** What happened, one line each. */
  readonly timeline: readonly string[];
  readonly ended: readonly Ended[];
  /** Requests that the gateway got. */
  readonly upstream: number;
  readonly vaultReads: number;
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
  upstream = 0;
  vaultReads = 0;
  readonly #random: Random;
  readonly #vault: Vault;
  readonly #gateway: Gateway;
  readonly #conditions: Conditions;
  readonly #instances: { readonly instance: Instance; readonly observer: Observer }[];
  /** Attempts by request. */
  readonly #attempts = new Map<number, number>();
  #requests = 0;

  constructor({ seed, nodes, instances, steps }: Schedule) {
    this.#random = new Random(seed + 1);
    this.#vault = new Vault(this.time, this.#random);
    this.#gateway = new Gateway(nodes, this.#random);
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
      if (action.do === 'reload') this.#instances[action.instance]?.instance.reload();
      else this.#instances[action.instance] = this.#newInstance(action.instance);
      return;
    }
    apply(action, this.#vault, this.#gateway);
    this.#conditions.update(this.time.now);
  }

  async #request({ instance: index, operation }: Extract<Action, { do: 'request' }>): Promise<void> {
    const one = this.#instances[index];
    if (one === undefined) return;
    this.#requests += 1;
    const id = this.#requests;
    const startedAt = this.time.now;
    const end = await one.instance.send(id, operation);
    this.ended.push({ operation, end, startedAt });
    this.#note(`instance ${index}    #${id} ${operation} of ${startedAt} ended: ${end}`);
    one.observer.ended(operation, end, startedAt);
    this.#collect(index, one.observer);
  }

  #newInstance(index: number): { instance: Instance; observer: Observer } {
    const observer = new Observer(this.#conditions);
    const instance = new Instance({
      time: this.time,
      random: this.#random,
      vault: this.#vault,
      forward: async (upstream) => {
        const { status, skew } = await this.#forward(index, observer, upstream);
        const date = new Date(epoch + this.time.now + skew).toUTCString();
        return { status, headers: { date }, body: Buffer.alloc(0) };
      },
      ringChanged: (ring) => {
        observer.ringChanged(ring, this.time.now);
        const versions = ring?.map(({ kind, version }) => `${kind} ${version}`) ?? ['gone'];
        this.#note(`instance ${index}    ring: ${versions.join(', ')}`);
      },
      reread: () => {
        this.vaultReads += 1;
        this.#note(`instance ${index}    reads Vault past the cache`);
        observer.reread(this.time.now);
        this.#collect(index, observer);
      },
    });
    return { instance, observer };
  }

  async #forward(index: number, observer: Observer, upstream: Upstream): Promise<Judged> {
    const attempts = this.#attempts.get(upstream.request) ?? 0;
    this.#attempts.set(upstream.request, attempts + 1);
    this.upstream += 1;
    const sent: Sent = { ...upstream, sentAt: this.time.now, isRetry: attempts > 0 };
    observer.sent(sent);
    this.#collect(index, observer);
    const there = this.#random.between(1, this.#gateway.latency * 2);
    const back = this.#random.between(1, this.#gateway.latency * 2);
    await this.time.wait(there);
    const { operation, key, request } = upstream;
    const judged = this.#gateway.judge(operation, key);
    await this.time.wait(back);
    observer.received(sent, judged, this.time.now);
    this.#note(
      `instance ${index}    #${request} ${operation} ${key}, sent ${sent.sentAt}: ${judged.status}${judged.status === 403 && !judged.aboutKey ? ' (not about the key)' : ''}`,
    );
    return judged;
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
