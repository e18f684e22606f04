import { ProxyError } from '../../src/errors.ts';
import { increment } from '../support/command.ts';
import { Random } from '../support/random.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { Agreement, type Attempt, type Ended, Notices } from './facts.ts';
import { Gateway, type Response } from './gateway.ts';
import { Instance } from './instance.ts';
import { Promises } from './promises.ts';
import { attacker, type Form, rotating, type Schedule, type Stream, type World } from './schedule.ts';
import { Vault } from './vault.ts';

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
  readonly instance: Instance;
  readonly promises: Promises;
  readonly notices: Notices;
}

/** A request that has not ended. */
interface Going {
  readonly form: Form;
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
  readonly #time = new VirtualClock();
  readonly #random: Random;
  readonly #agreement: Agreement;
  #watched: Watched;
  #requests = 0;

  constructor(schedule: Schedule) {
    const { seed, traits, streams, events } = schedule;
    this.#schedule = schedule;
    this.#random = new Random(seed, 'course');
    this.vault = new Vault(this.#time, new Random(seed, 'vault'), schedule);
    this.gateway = new Gateway(traits, new Random(seed, 'gateway'));
    this.vault.write(rotating, 'A');
    for (const { login } of streams) if (login !== rotating) this.vault.write(login, 'Z');
    this.#agreement = new Agreement(this.#time, this.vault, this.gateway);
    this.#watched = this.#start();
    for (const { at, text, happen } of events)
      this.#time.setTimer(() => {
        this.#note(text);
        happen(this);
        this.#agreement.update();
      }, at);
    for (const stream of streams) this.#send(stream);
  }

  async run(): Promise<void> {
    await this.#time.advance(this.#schedule.length);
    this.#watched.instance.stop();
  }

  restart(): void {
    this.#watched.instance.stop();
    this.#watched = this.#start();
  }

  violate(text: string): void {
    this.violations.push(`${(this.#time.now / 1000).toFixed(3)} s: ${text}`);
    this.#note(`VIOLATION: ${text}`);
  }

  #start(): Watched {
    const { ttl } = this.#schedule;
    const [time, agreement] = [this.#time, this.#agreement];
    const violate = (text: string): void => this.violate(text);
    const promises = new Promises({ agreement, ttl, now: time.monotonic, violate });
    const instance = new Instance({
      time,
      random: this.#random,
      vault: this.vault,
      ttl,
      looked: (login) => {
        this.#note(`looks at ${login}`);
        promises.looked(login);
      },
      stepsReset: () => promises.stepsReset(),
    });
    return { instance, promises, notices: new Notices(agreement, time.now) };
  }

  #send(stream: Stream): void {
    const { caller, operation, endpoint, login, from, perSecond } = stream;
    const random = new Random(this.#schedule.seed, caller, operation, endpoint, login);
    const pause = 1_000 / perSecond;
    const next = (after: number): void => {
      const at = Math.round(after + pause * (0.5 + random.next()));
      this.#time.setTimer(() => {
        void this.#request(this.#formOf(stream, random));
        next(at);
      }, at - this.#time.now);
    };
    next(from - pause * random.next());
  }

  #formOf(stream: Stream, random: Random): Form {
    const { caller, operation, endpoint, login, invents } = stream;
    this.#requests += 1;
    const id = this.#requests;
    return {
      id,
      caller,
      operation,
      endpoint: invents === 'endpoint' ? `${endpoint}${id}` : endpoint,
      login: invents === 'login' ? `${login}${id}` : login,
      isMalformed: random.chance(stream.malformed),
      isUnpermitted: random.chance(stream.unpermitted),
      isRefused: random.chance(this.#schedule.traits.refused),
    };
  }

  async #request(form: Form): Promise<void> {
    const watched = this.#watched;
    const { instance, promises } = watched;
    const began = { startedAt: this.#time.now, keysBefore: instance.keysOf(form.login) };
    const going: Going = { form, upstream: 0, isTrial: false, last: undefined };
    const end = await instance.request(form, {
      chosen: (key, current) => {
        if (form.operation !== 'payment' || key === current) return;
        going.isTrial = true;
        promises.trialBegins(form);
      },
      post: (key) => this.#post(watched, going, key),
    });
    // A process that ends takes its requests with it.
    if (watched !== this.#watched) return;
    const ended = { ...going, ...began, end };
    promises.ended(ended, instance.currentOf(form.login), instance.keysOf(form.login));
    this.#count(ended, watched);
  }

  async #post({ instance, promises, notices }: Watched, going: Going, key: string): Promise<Response> {
    const time = this.#time;
    const { form, isTrial } = going;
    const attempt = { form, key, sentAt: time.now, isTrial, isBesideTrial: promises.isOnTrial(form) };
    going.last = attempt;
    promises.sent(attempt);
    await time.wait(this.#way());
    const judged = this.gateway.judge(form, key);
    await time.wait(this.#way());
    going.upstream += time.now - attempt.sentAt;
    promises.received(attempt, judged, instance.currentOf(form.login));
    notices.received(attempt, judged, time.now);
    const { id, caller, operation, endpoint, login } = form;
    const what = `#${id} ${caller} ${operation} ${endpoint} ${login}`;
    const status = judged.response?.status ?? 'no response';
    this.#note(`${what} ${key} of ${(attempt.sentAt / 1000).toFixed(3)}: ${status}`);
    if (judged.response === undefined) throw new ProxyError('gateway-timeout', 'no response');
    return judged.response;
  }

  /** Milliseconds. */
  #way(): number {
    const random = this.#random;
    return random.int(1, this.#schedule.traits.latency) + (random.chance(0.01) ? random.int(0, 500) : 0);
  }

  /** Only requests with which nothing is wrong. */
  #count(ended: Ended, { notices }: Watched): void {
    const { form, end } = ended;
    const isWell = !form.isUnpermitted && !form.isMalformed && form.caller !== attacker;
    if (form.login !== rotating || !isWell) return;
    increment(this.figures, form.operation === 'query' ? 'queries' : 'payments');
    if (typeof end === 'string') increment(this.figures, `${form.operation} not sent: ${end}`);
    const found = notices.lateRejection(ended, 2 * this.#schedule.traits.latency);
    if (found === undefined) return;
    increment(this.figures, found);
    if (this.#schedule.family !== 'odd') this.violate(`${found}, #${form.id}`);
  }

  #note(text: string): void {
    this.timeline.push(`${(this.#time.now / 1000).toFixed(3).padStart(9)} s  ${text}`);
  }
}
