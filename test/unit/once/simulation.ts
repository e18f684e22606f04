import { createSecretKey } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { configSchema } from '../../../src/config/schema.ts';
import { type Outcome, ProxyError } from '../../../src/errors.ts';
import { createRoutes } from '../../../src/gateway/router.ts';
import { claimName } from '../../../src/once/claim.ts';
import { type ClaimStore, StoreUnavailable } from '../../../src/once/store.ts';
import { SendOnce } from '../../../src/proxy/outbound/send-once.ts';
import { outcomeWithoutResponse } from '../../../src/proxy/outcome.ts';
import type { RequestRecord } from '../../../src/request-context.ts';
import { configFor } from '../../support/config.ts';
import { Random } from '../../support/random.ts';

/** What is counted over a run. */
export interface Tally {
  posts: number;
  /** Posts that reached the gateway, which did not reject them. */
  sent: number;
  /** Orders that reached the gateway more than once. */
  doubled: number;
  /** Those of them whose claim the store had lost. */
  doubledAfterLoss: number;
  /** Outcomes that were not true. */
  lies: string[];
  readonly outcomes: Record<string, number>;
}

export interface SimulationOptions {
  readonly seed: number;
  readonly posts: number;
  /** Part of the commands before which the store loses its last writes, 0 to 1. */
  readonly losesWrites?: number;
  /** A rule that the store breaks, to see that the simulation finds it. */
  readonly breaks?: 'compares' | 'one step';
}

const key = createSecretKey(Buffer.alloc(32, 1));
const config = configSchema.parse(configFor('http://127.0.0.1:9'));
const destination = createRoutes(config).resolve('/sandbox/gw/api/v4/transfer/1234');

/** Runs what is ready in an order that the seed chooses, so that each step may be before or after each other one. */
class Scheduler {
  readonly random: Random;
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
      await turn();
    }
  }
}

/** The server of all instances: it may be slow, hang, die, be replaced, and forget its last writes. */
class SimulatedServer {
  claims = new Map<string, string>();
  /** Names of claims that were lost. */
  readonly lost = new Set<string>();
  #undo: (() => void)[] = [];

  set(name: string, claim: string | undefined): void {
    const before = this.claims.get(name);
    this.#undo = [
      ...this.#undo.slice(-4),
      () => {
        if (this.claims.has(name) && before === undefined) this.lost.add(name);
        if (before === undefined) this.claims.delete(name);
        else this.claims.set(name, before);
      },
    ];
    if (claim === undefined) this.claims.delete(name);
    else this.claims.set(name, claim);
  }

  /** As a replica that takes over, and did not get the last writes. */
  failOver(): void {
    for (const undo of this.#undo.toReversed()) undo();
    this.#undo = [];
  }
}

/** What an instance has of the server: a connection that may break before, after or while a command is executed. */
class SimulatedStore implements ClaimStore {
  readonly #server: SimulatedServer;
  readonly #scheduler: Scheduler;
  readonly #options: Pick<SimulationOptions, 'losesWrites' | 'breaks'>;

  constructor(server: SimulatedServer, scheduler: Scheduler, options: SimulationOptions) {
    [this.#server, this.#scheduler, this.#options] = [server, scheduler, options];
  }

  async claim(name: string, claim: string): Promise<string | undefined> {
    try {
      if (this.#options.breaks === 'one step') {
        const before = await this.#command(() => this.#server.claims.get(name));
        if (before === undefined) await this.#command(() => this.#server.set(name, claim));
        return before;
      }
      return await this.#command(() => {
        const there = this.#server.claims.get(name);
        if (there === undefined) this.#server.set(name, claim);
        return there;
      });
    } catch (error) {
      void this.replace(name, claim);
      throw error;
    }
  }

  async replace(name: string, claim: string, next?: string): Promise<void> {
    // Until it is done, or for ever if the instance dies first.
    for (let attempts = 0; attempts < 20; attempts += 1) {
      try {
        return await this.#command(() => {
          const isOurs = this.#options.breaks === 'compares' || this.#server.claims.get(name) === claim;
          if (isOurs) this.#server.set(name, next);
        });
      } catch {
        await this.#scheduler.step();
      }
    }
  }

  async find(): Promise<undefined> {}

  async close(): Promise<void> {}

  async #command<T>(execute: () => T): Promise<T> {
    const { random } = this.#scheduler;
    await this.#scheduler.step();
    if (random.chance(this.#options.losesWrites ?? 0)) this.#server.failOver();
    const fault = random.chance(0.1) ? random.pick(['down', 'lost', 'late'] as const) : undefined;
    if (fault === 'down') throw new StoreUnavailable('down');
    if (fault === 'late') {
      // It is executed after we have given it up.
      void this.#scheduler.step().then(execute);
      throw new StoreUnavailable('no response in time');
    }
    const response = execute();
    await this.#scheduler.step();
    if (fault === 'lost') throw new StoreUnavailable('closed');
    return response;
  }
}

interface Order {
  readonly orderId: string;
  /** Requests that reached the gateway, which did not reject them. */
  readonly processed: Set<string>;
}

/** Clients that post each order several times, at any moment, to any of three instances. */
export async function simulate(options: SimulationOptions): Promise<Tally> {
  const { seed, posts } = options;
  const random = new Random(seed);
  const scheduler = new Scheduler(random);
  const server = new SimulatedServer();
  const tally: Tally = { posts: 0, sent: 0, doubled: 0, doubledAfterLoss: 0, lies: [], outcomes: {} };
  const instances = Array.from(
    { length: 3 },
    () =>
      new SendOnce({
        store: new SimulatedStore(server, scheduler, options),
        key,
        clock: () => 0,
        monotonic: () => 0,
        metrics: { claimMade() {} },
      }),
  );
  while (tally.posts < posts) {
    server.lost.clear();
    server.claims.clear();
    const orders = Array.from(
      { length: 50 },
      (_, index): Order => ({ orderId: `order-${index}`, processed: new Set() }),
    );
    for (const order of orders) {
      const parallel = random.int(1, 3);
      for (let client = 0; client < parallel; client += 1) void payUntilDone(order);
    }
    await scheduler.run();
    for (const { orderId, processed } of orders) {
      if (processed.size < 2) continue;
      tally.doubled += 1;
      const order = { environment: 'sandbox', login: 'acme', operation: 'transfer', orderId };
      if (server.lost.has(claimName(key, order))) tally.doubledAfterLoss += 1;
    }
  }
  return tally;

  /** Posts it as payments.md says, and sometimes once more whatever the outcome was. */
  async function payUntilDone(order: Order): Promise<void> {
    for (let attempt = 0; attempt < 4; attempt += 1) {
      await scheduler.step();
      const outcome = await post(order);
      if (outcome !== 'not-sent' && !random.chance(0.3)) return;
    }
  }

  async function post(order: Order): Promise<Outcome | 'died'> {
    tally.posts += 1;
    const id = `request-${tally.posts}`;
    const record: RequestRecord = { id, startedAt: 0, attempts: 0, durations: {} };
    const form = [
      ['client_orderid', order.orderId],
      ['amount', '1'],
    ] as const;
    const died = Promise.withResolvers<'died'>();
    /** From here on, nothing of this request happens. */
    const mayDie = async (): Promise<void> => {
      await scheduler.step();
      if (!random.chance(0.02)) return;
      died.resolve('died');
      await new Promise(() => {});
    };
    const send = async () => {
      await mayDie();
      if (random.chance(0.1)) throw new ProxyError('overloaded', 'Overloaded.');
      record.writtenAttempts = 1;
      await mayDie();
      const rejected = random.chance(0.1);
      const processed = !rejected && !random.chance(0.05);
      if (processed) order.processed.add(id);
      tally.sent += processed ? 1 : 0;
      await mayDie();
      if (!rejected && random.chance(0.1)) throw new ProxyError('gateway-reset', 'Reset.');
      return { status: rejected ? 403 : 200 };
    };
    const ended = random
      .pick(instances)
      .send({ record, destination, login: 'acme', form }, send)
      .then(({ status }): string => `answered ${status}`)
      .catch((error: unknown) => {
        if (!(error instanceof ProxyError)) throw error;
        return `${outcomeWithoutResponse(record)} ${error.reason}`;
      });
    const end = await Promise.race([ended, died.promise]);
    tally.outcomes[end] = (tally.outcomes[end] ?? 0) + 1;
    const isLie = (end.startsWith('not-sent') || end === 'answered 403') && order.processed.has(id);
    const namesNoRequest = end.endsWith('duplicate-payment') && record.firstRequestId === undefined;
    if (isLie || namesNoRequest || end.endsWith('order-id-reused')) tally.lies.push(`${id}: ${end}`);
    if (end === 'died') return 'died';
    if (end === 'answered 403') return 'not-sent';
    return end.startsWith('answered') ? 'answered' : end.startsWith('not-sent') ? 'not-sent' : 'unknown';
  }
}
