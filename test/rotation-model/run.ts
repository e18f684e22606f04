import { ProxyError } from '../../src/errors.ts';
import { increment } from '../support/command.ts';
import { Random } from '../support/random.ts';
import { Agreement, type Attempt, type Ended, lateRejection, Notices } from './facts.ts';
import { type Form, Gateway, type Response } from './gateway.ts';
import { Instance } from './instance.ts';
import { Promises } from './promises.ts';
import { attackers, rotating, type Schedule, type Stream, type World } from './schedule.ts';
import { Vault } from './vault.ts';
import { VirtualTime } from './virtual-time.ts';

export interface Run {
  /** Each with its time. */
  readonly violations: readonly string[];
  /** The events and requests, one line each. */
  readonly timeline: readonly string[];
  /** How many requests there were, and how many of them were not sent, or rejected too late. */
  readonly figures: ReadonlyMap<string, number>;
}

/** Runs a schedule to its end. */
export async function run(schedule: Schedule): Promise<Run> {
  const model = new Model(schedule);
  const onUnhandled = (reason: unknown): void => model.violate(`unhandled rejection: ${String(reason)}`);
  process.on('unhandledRejection', onUnhandled);
  try {
    await model.run();
  } finally {
    process.off('unhandledRejection', onUnhandled);
  }
  return model;
}

/** A process, and who watches it. */
interface Watched {
  readonly number: number;
  readonly bornAt: number;
  readonly instance: Instance;
  readonly promises: Promises;
  readonly notices: Notices;
}

/** Of a request that has not ended. */
interface InFlight {
  upstream: number;
  isTrial: boolean;
  last: Attempt | undefined;
}

class Model implements Run, World {
  readonly violations: string[] = [];
  readonly timeline: string[] = [];
  readonly figures = new Map<string, number>();
  readonly vault: Vault;
  readonly gateway: Gateway;
  readonly #schedule: Schedule;
  readonly #time = new VirtualTime();
  readonly #random: Random;
  readonly #agreement: Agreement;
  readonly #instances: Watched[];
  readonly #inFlight = new Map<number, InFlight>();
  #requests = 0;

  constructor(schedule: Schedule) {
    const { seed, traits, streams, instances, events } = schedule;
    this.#schedule = schedule;
    this.#random = new Random(seed, 'course');
    this.vault = new Vault(this.#time, new Random(seed, 'vault'), schedule);
    this.gateway = new Gateway(traits, new Random(seed, 'gateway'));
    this.vault.write(rotating, 'A', -1e6);
    for (let node = 0; node < traits.nodes; node += 1) this.gateway.accept(node, ['A']);
    for (const { login } of streams) if (login !== rotating) this.vault.write(login, 'Z', -1e6);
    this.#agreement = new Agreement(this.#time, this.vault, this.gateway);
    this.#agreement.update();
    this.#instances = Array.from({ length: instances }, (_, number) => this.#start(number));
    for (const { at, text, happen } of events)
      this.#time.at(at, () => {
        this.#note(text);
        happen(this);
        this.#agreement.update();
      });
    for (const stream of streams) this.#send(stream);
  }

  async run(): Promise<void> {
    await this.#time.run(this.#schedule.length);
    for (const { instance } of this.#instances) instance.stop();
  }

  restart(number: number): void {
    this.#instances[number]?.instance.stop();
    this.#instances[number] = this.#start(number);
  }

  reload(number: number): void {
    void this.#instances[number]?.instance.reload();
  }

  violate(text: string): void {
    this.violations.push(`${(this.#time.now / 1000).toFixed(3)} s: ${text}`);
    this.#note(`VIOLATION: ${text}`);
  }

  #start(number: number): Watched {
    const { ttl } = this.#schedule;
    const time = this.#time;
    const promises = new Promises({
      agreement: this.#agreement,
      ttl,
      now: () => time.now,
      violate: (text) => this.violate(`instance ${number}: ${text}`),
    });
    const notices = new Notices();
    const instance = new Instance({
      time,
      random: this.#random,
      vault: this.vault,
      ttl,
      looked: (login, reader) => {
        this.#note(`instance ${number} looks at ${login}`);
        promises.looked(login, reader);
      },
      stepsReset: () => promises.stepsReset(),
      chosen: (form, key, current) => {
        const request = this.#inFlight.get(form.id);
        if (request === undefined || form.operation !== 'payment' || key === current) return;
        request.isTrial = true;
        promises.trialBegins(form);
      },
      post: (form, key) => this.#post(watched, form, key),
    });
    const watched = { number, bornAt: time.now, instance, promises, notices };
    return watched;
  }

  #send(stream: Stream): void {
    const { caller, operation, endpoint, from, to, perSecond } = stream;
    const random = new Random(this.#schedule.seed, caller, operation, endpoint, stream.login);
    const next = (after: number): void => {
      const at = after + (1_000 / perSecond) * (0.5 + random.next());
      if (at > to) return;
      this.#time.at(at, () => {
        void this.#request(this.#formOf(stream, random), random.int(0, this.#instances.length - 1));
        next(at);
      });
    };
    next(from - (1_000 / perSecond) * random.next());
  }

  #formOf(
    { caller, operation, endpoint, login, invents, malformed, unpermitted }: Stream,
    random: Random,
  ): Form {
    const { refused } = this.#schedule.traits;
    this.#requests += 1;
    const id = this.#requests;
    return {
      id,
      caller,
      operation,
      endpoint: invents === 'endpoint' ? `${endpoint}${id}` : endpoint,
      login: invents === 'login' ? `${login}${id}` : login,
      isMalformed: random.chance(malformed),
      isUnpermitted: random.chance(unpermitted),
      isRefused: random.chance(refused),
    };
  }

  async #request(form: Form, number: number): Promise<void> {
    const watched = this.#instances[number];
    if (watched === undefined) return;
    const { instance, promises } = watched;
    const startedAt = this.#time.now;
    const keysBefore = instance.keysOf(form.login);
    const request: InFlight = { upstream: 0, isTrial: false, last: undefined };
    this.#inFlight.set(form.id, request);
    const end = await instance.request(form);
    this.#inFlight.delete(form.id);
    // A process that ends takes its requests with it.
    if (watched !== this.#instances[number]) return;
    const { upstream, last } = request;
    const ended = { form, end, startedAt, upstream, keysBefore, last };
    promises.ended(ended, instance.currentOf(form.login), instance.keysOf(form.login));
    this.#count(ended, watched);
  }

  async #post(
    { number, bornAt, instance, promises, notices }: Watched,
    form: Form,
    key: string,
  ): Promise<Response> {
    const time = this.#time;
    const request = this.#inFlight.get(form.id);
    const isTrial = request?.isTrial === true;
    const attempt = { form, key, sentAt: time.now, isTrial, isBesideTrial: promises.isOnTrial(form) };
    if (request !== undefined) request.last = attempt;
    promises.sent(attempt);
    await time.wait(this.#way());
    const judged = this.gateway.judge(form, key);
    await time.wait(this.#way());
    if (request !== undefined) request.upstream += time.now - attempt.sentAt;
    promises.received(attempt, judged, instance.currentOf(form.login));
    notices.received(attempt, judged, time.now, this.#agreement.forInstance(bornAt));
    const { id, caller, operation, endpoint, login } = form;
    const what = `#${id} ${caller} ${operation} ${endpoint} ${login}`;
    const status = judged.response?.status ?? 'no response';
    this.#note(`instance ${number} ${what} ${key} of ${(attempt.sentAt / 1000).toFixed(3)}: ${status}`);
    if (judged.response === undefined) throw new ProxyError('gateway-timeout', 'no response');
    return judged.response;
  }

  /** Milliseconds. */
  #way(): number {
    const { latency } = this.#schedule.traits;
    const random = this.#random;
    return random.int(1, latency) + (random.chance(0.01) ? random.int(0, 500) : 0);
  }

  /** Only requests with which nothing is wrong. */
  #count(ended: Ended, { number, notices, bornAt }: Watched): void {
    const { form, end } = ended;
    const { latency } = this.#schedule.traits;
    const isWell = !form.isUnpermitted && !form.isMalformed && !attackers.includes(form.caller);
    if (form.login !== rotating || !isWell) return;
    increment(this.figures, form.operation === 'query' ? 'queries' : 'payments');
    if (typeof end === 'string' && end !== 'gateway-timeout')
      increment(this.figures, `${form.operation} not sent: ${end}`);
    const agreement = this.#agreement;
    const found = lateRejection(ended, { agreement, notices, bornAt, roundTrip: 2 * latency });
    if (found === undefined) return;
    increment(this.figures, found);
    if (this.#schedule.family !== 'odd') this.violate(`instance ${number}: ${found}, #${form.id}`);
  }

  #note(text: string): void {
    this.timeline.push(`${(this.#time.now / 1000).toFixed(3).padStart(9)} s  ${text}`);
  }
}
