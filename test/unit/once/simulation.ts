import { createSecretKey } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { configSchema } from '../../../src/config/schema.ts';
import { type Outcome, ProxyError } from '../../../src/errors.ts';
import { createRoutes } from '../../../src/gateway/router.ts';
import { claimName, parseClaim } from '../../../src/once/claim.ts';
import { MemoryStore } from '../../../src/once/memory-store.ts';
import { type ClaimStore, StoreUnavailable } from '../../../src/once/store.ts';
import { SendOnce } from '../../../src/proxy/outbound/send-once.ts';
import { outcomeWithoutResponse } from '../../../src/proxy/outcome.ts';
import type { RequestRecord } from '../../../src/request-context.ts';
import { configFor } from '../../support/config.ts';
import { Random } from '../../support/random.ts';

/** What is counted over a run. */
export interface Tally {
  posts: number;
  /** Orders that reached the gateway more than once within the time of a claim. */
  doubled: number;
  /** Orders that reached the gateway again when their claim was over. */
  sentLater: number;
  /** Claims of requests that ended, and were not sent. */
  left: number;
  /** Outcomes that were not true. */
  lies: string[];
  readonly outcomes: Record<string, number>;
}

export interface SimulationOptions {
  readonly seed: number;
  readonly posts: number;
  /** Part of the commands that fail in some way, 0 to 1. */
  readonly fails?: number;
}

const key = createSecretKey(Buffer.alloc(32, 1));
const config = configSchema.parse(configFor('http://127.0.0.1:9'));
const destination = createRoutes(config).resolve('/sandbox/gw/api/v4/transfer/1234');

/** Of a claim, and of a request, in the time of the simulation. */
const [ttl, requestTimeout] = [100, 50];

/** Runs what is ready in an order that the seed chooses, so that each step may be before or after each other one. */
class Scheduler {
  readonly random: Random;
  now = 0;
  readonly #ready: (() => void)[] = [];

  constructor(random: Random) {
    this.random = random;
  }

  /** Resolves at some time. */
  step(): Promise<void> {
    return new Promise((resolve) => void this.#ready.push(resolve));
  }

  async run(): Promise<void> {
    await turn();
    while (this.#ready.length > 0) {
      // Some at once: what they do then is independent, since it takes further steps.
      for (let several = this.random.int(1, 4); several > 0 && this.#ready.length > 0; several -= 1) {
        const at = this.random.int(0, this.#ready.length - 1);
        const last = this.#ready.pop();
        const chosen = at < this.#ready.length ? this.#ready[at] : last;
        if (at < this.#ready.length && last !== undefined) this.#ready[at] = last;
        chosen?.();
      }
      if (this.random.chance(0.003)) this.now += this.random.int(1, ttl);
      await turn();
    }
  }
}

/** What an instance has of the store of all: a connection that may break before, after or while a command is executed. */
class Connection implements ClaimStore {
  readonly #server: MemoryStore;
  readonly #scheduler: Scheduler;
  readonly #fails: number;
  readonly #changes = new Set<Promise<void>>();
  #isClosing = false;
  #isClosed = false;

  constructor(server: MemoryStore, scheduler: Scheduler, { fails = 0.1 }: SimulationOptions) {
    [this.#server, this.#scheduler, this.#fails] = [server, scheduler, fails];
  }

  async claim(name: string, claim: string): Promise<string | undefined> {
    try {
      return await this.#command(() => this.#server.claim(name, claim));
    } catch (error) {
      void this.replace(name, claim);
      throw error;
    }
  }

  async replace(name: string, claim: string, next?: string): Promise<void> {
    const change = this.#repeat(() => this.#server.replace(name, claim, next));
    this.#changes.add(change);
    await change;
    this.#changes.delete(change);
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await Promise.all(this.#changes);
    this.#isClosed = true;
  }

  /** Until it is done, or the last attempt of a connection that closes has failed. */
  async #repeat(execute: () => Promise<void>): Promise<void> {
    for (let attempts = 0; attempts < 20; attempts += 1) {
      const isLast = this.#isClosing;
      try {
        return await this.#command(execute);
      } catch {
        await this.#scheduler.step();
        if (isLast) return;
      }
    }
  }

  async #command<T>(execute: () => Promise<T>): Promise<T> {
    const { random } = this.#scheduler;
    await this.#scheduler.step();
    const fault = random.chance(this.#fails) ? random.pick(['down', 'lost', 'late'] as const) : undefined;
    if (fault === 'down' || this.#isClosed) throw new StoreUnavailable('down');
    if (fault === 'late') {
      // It is executed after we have given it up.
      void this.#scheduler.step().then(execute);
      throw new StoreUnavailable('no response in time');
    }
    const response = await execute();
    await this.#scheduler.step();
    if (fault === 'lost' || this.#isClosed) throw new StoreUnavailable('closed');
    return response;
  }
}

/** A Countersign, which may be shut down: that aborts what it sends. */
class Instance {
  readonly #store: Connection;
  readonly #guard: SendOnce;
  readonly #aborted = Promise.withResolvers<never>();
  #isAborted = false;

  constructor(server: MemoryStore, scheduler: Scheduler, options: SimulationOptions) {
    this.#store = new Connection(server, scheduler, options);
    const clock = (): number => scheduler.now;
    const metrics = { claimMade() {} };
    this.#guard = new SendOnce({ store: this.#store, key, clock, monotonic: clock, metrics });
    this.#aborted.promise.catch(() => {});
  }

  /** As the handler does. @param send gets what throws if nothing may be written any more */
  pay(record: RequestRecord, form: Form, send: (assertAccepting: () => void) => Promise<{ status: number }>) {
    const assertAccepting = (): void => {
      if (this.#isAborted) throw new ProxyError('shutting-down', 'Shutting down.');
    };
    return this.#guard.send({ record, destination, login: 'acme', form }, () =>
      Promise.race([send(assertAccepting), this.#aborted.promise]),
    );
  }

  async shutDown(): Promise<void> {
    this.#isAborted = true;
    this.#aborted.reject(new ProxyError('shutting-down', 'Shutting down.'));
    await this.#guard.idle();
    await this.#store.close();
  }
}

type Form = readonly (readonly [name: string, value: string])[];

interface Order {
  readonly orderId: string;
  readonly name: string;
  /** The amount of each request. */
  readonly posts: Map<string, string>;
  /** Requests that ended, and how. */
  readonly ends: Map<string, string>;
  /** When requests reached the gateway, which did not reject them. */
  readonly processed: Map<string, number>;
}

/** Clients that post each order several times, at any moment, to any of three instances; and what else happens to these. */
export async function simulate(options: SimulationOptions): Promise<Tally> {
  const random = new Random(options.seed);
  const tally: Tally = { posts: 0, doubled: 0, sentLater: 0, left: 0, lies: [], outcomes: {} };
  while (tally.posts < options.posts) await simulateOrders(options, random, tally);
  return tally;
}

async function simulateOrders(options: SimulationOptions, random: Random, tally: Tally): Promise<void> {
  const scheduler = new Scheduler(random);
  const server = new MemoryStore({ ttl, monotonic: () => scheduler.now, report() {} });
  const open = (): Instance => new Instance(server, scheduler, options);
  const instances = [open(), open(), open()];
  const orders = Array.from({ length: 50 }, (_, index) => newOrder(`order-${index}`));
  for (const order of orders)
    for (let clients = random.int(1, 3); clients > 0; clients -= 1) void payUntilDone(order);
  for (let times = random.int(0, 2); times > 0; times -= 1) void replaceInstance();
  await scheduler.run();
  for (const order of orders) await count(order);

  /** Posts it as payments.md says, and sometimes once more whatever the outcome was, or with another amount. */
  async function payUntilDone(order: Order): Promise<void> {
    for (let attempt = 0; attempt < 4; attempt += 1) {
      await scheduler.step();
      const outcome = await post(order, random.chance(0.05) ? '2' : '1');
      if (outcome !== 'not-sent' && !random.chance(0.3)) return;
    }
  }

  async function replaceInstance(): Promise<void> {
    for (let steps = random.int(0, 20); steps > 0; steps -= 1) await scheduler.step();
    const at = random.int(0, instances.length - 1);
    const [previous] = instances.splice(at, 1, open());
    await previous?.shutDown();
  }

  async function post(order: Order, amount: string): Promise<Outcome | 'died'> {
    tally.posts += 1;
    const id = `request-${tally.posts}`;
    const startedAt = scheduler.now;
    order.posts.set(id, amount);
    const record: RequestRecord = { id, startedAt, attempts: 0, durations: {} };
    const form = [
      ['client_orderid', order.orderId],
      ['amount', amount],
    ] as const;
    const died = Promise.withResolvers<'died'>();
    /** From here on, nothing of this request happens. */
    const mayDie = async (): Promise<void> => {
      await scheduler.step();
      if (!random.chance(0.02)) return;
      died.resolve('died');
      await new Promise(() => {});
    };
    const send = async (assertAccepting: () => void) => {
      await mayDie();
      assertAccepting();
      if (random.chance(0.1)) throw new ProxyError('overloaded', 'Overloaded.');
      if (scheduler.now > startedAt + requestTimeout) throw new ProxyError('gateway-timeout', 'Late.');
      record.writtenAttempts = 1;
      const rejected = random.chance(0.1);
      const processed = !rejected && !random.chance(0.05);
      if (processed) order.processed.set(id, scheduler.now);
      await mayDie();
      if (!rejected && random.chance(0.1)) throw new ProxyError('gateway-reset', 'Reset.');
      return { status: rejected ? 403 : 200 };
    };
    const ended = random
      .pick(instances)
      .pay(record, form, send)
      .then(({ status }): string => `answered ${status}`)
      .catch((error: unknown) => {
        if (!(error instanceof ProxyError)) throw error;
        if (!isTrue(error, record, order)) tally.lies.push(`${id}: ${error.detail}`);
        return `${outcomeWithoutResponse(record)} ${error.reason}`;
      });
    const end = await Promise.race([ended, died.promise]);
    order.ends.set(id, end);
    tally.outcomes[end] = (tally.outcomes[end] ?? 0) + 1;
    const isLie = (end.startsWith('not-sent') || end === 'answered 403') && order.processed.has(id);
    if (isLie) tally.lies.push(`${id}: ${end}`);
    if (end === 'died') return 'died';
    if (end === 'answered 403') return 'not-sent';
    // Who made a mistake does not go on.
    if (end.endsWith('order-id-reused')) return 'unknown';
    return end.startsWith('answered') ? 'answered' : end.startsWith('not-sent') ? 'not-sent' : 'unknown';
  }

  async function count({ name, processed, ends }: Order): Promise<void> {
    const times = [...processed.values()];
    const isAgain = (at: number, index: number): boolean =>
      at - (times[index - 1] ?? -ttl) < ttl - requestTimeout;
    if (times.some(isAgain)) tally.doubled += 1;
    else if (times.length > 1) tally.sentLater += 1;
    const { requestId = '' } = parseClaim((await server.claim(name, '')) ?? '') ?? {};
    const end = ends.get(requestId) ?? '';
    if (end.startsWith('not-sent') || end === 'answered 403') tally.left += 1;
  }
}

function newOrder(orderId: string): Order {
  const name = claimName(key, { environment: 'sandbox', login: 'acme', operation: 'transfer', orderId });
  return { orderId, name, posts: new Map(), ends: new Map(), processed: new Map() };
}

/** What a repeat is told: the first request is one of the same order, with the same amount or with another one. */
function isTrue(
  { reason, detail }: ProxyError,
  { id, firstRequestId }: RequestRecord,
  { posts }: Order,
): boolean {
  if (reason !== 'duplicate-payment' && reason !== 'order-id-reused') return true;
  const [, first = ''] = /by request (\S+) at/.exec(detail) ?? [];
  if (!posts.has(first)) return false;
  const isSame = posts.get(first) === posts.get(id);
  return reason === 'duplicate-payment' ? isSame && firstRequestId === first : !isSame;
}
