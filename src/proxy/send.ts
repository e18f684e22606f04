import { setTimeout as wait } from 'node:timers/promises';
import { Refusal } from '../errors.ts';
import { sameKey } from '../keys/key.ts';
import type { KeyUse, Manner, MutableUse } from '../keys/key-history.ts';
import type { KeyAddress } from '../keys/source.ts';
import { methods } from '../oauth1/methods.ts';
import type { Meter } from '../ops/meter.ts';
import type { Canaries } from './canary.ts';
import { isSkewed, skewOf } from './clock-skew.ts';
import { CrossingFailure, type GatewayReply, type Post } from './crossing.ts';
import type { Forwarder } from './forward.ts';
import { type Errand, type PostPorts, signedPost } from './post.ts';
import type { Verdict } from './retry.ts';
import type { Rotation } from './rotation.ts';
import { refusalFor } from './unanswered.ts';

export interface SenderPorts extends PostPorts {
  readonly rotation: Rotation;
  /** One per environment. */
  readonly forwarders: ReadonlyMap<string, Forwarder>;
  /** Where payments are to be preceded by one. */
  readonly canaries?: Canaries;
  readonly meter: Meter;
  /** 0 to 1. */
  readonly random: () => number;
}

/** What may be sent again, and how often. */
interface Budget {
  /** No byte was written: safe for every operation. */
  unsent: number;
  /** A pooled connection broke before a reply: safe for reads. */
  stale: number;
}

/** Takes the key, signs, forwards; again only where that is safe. */
export class Sender {
  readonly #ports: SenderPorts;

  constructor(ports: SenderPorts) {
    this.#ports = ports;
  }

  /**
   * @throws Refusal for a key that cannot be had, for `overloaded`, and for every way in which no answer came;
   *   its outcome is that of the attempt that failed, while the exchange counts those that wrote something
   */
  async send(errand: Errand): Promise<GatewayReply> {
    const startedAt = this.#ports.monotonic();
    if (maySendAgain(errand)) return this.#send(errand, 'bold', startedAt);
    await this.#ports.canaries?.goBefore(errand, addressOf(errand), (canary) =>
      this.#send(canary, 'careful', canary.exchange.startedAt),
    );
    return this.#send(errand, 'careful', startedAt);
  }

  async #send(errand: Errand, manner: Manner, startedAt: number): Promise<GatewayReply> {
    const { rotation, monotonic } = this.#ports;
    const { exchange, destination } = errand;
    const { operation, settings } = destination;
    const address = addressOf(errand);
    const choice = rotation.choose(address, methods[operation.signature].kind, manner);
    const key = await inTime(choice, settings.deadlines.exchange, address);
    exchange.durations.key = (monotonic() - startedAt) / 1000;
    const endsAt = startedAt + settings.deadlines.exchange;
    const use = { key, operation: operation.name, sentAt: monotonic() };
    const reply = await this.#deliver(errand, use, endsAt);
    const verdict = this.#judge(reply);
    if (verdict === 'accepted') rotation.recordAccepted(address, use);
    if (reply.status !== 403) return reply;
    exchange.rejection = verdict === 'clock-skew' ? 'clock-skew' : 'current-key';
    if (maySendAgain(errand)) return this.#sendAgain(errand, use, reply, endsAt);
    rotation.recordRejected(address, use, verdict);
    return reply;
  }

  /** With other keys; the last response counts. */
  async #sendAgain(
    errand: Errand,
    rejected: KeyUse,
    first: GatewayReply,
    endsAt: number,
  ): Promise<GatewayReply> {
    const address = addressOf(errand);
    const { exchange } = errand;
    const judge = (reply: GatewayReply): Verdict => this.#judge(reply);
    let last = first;
    let written = exchange.writtenAttempts;
    const send = async (use: MutableUse): Promise<GatewayReply> => {
      const reply = await this.#deliver(errand, use, endsAt);
      last.rest?.destroy();
      last = reply;
      written = exchange.writtenAttempts;
      return reply;
    };
    const isOverdue = (): boolean => this.#ports.monotonic() >= endsAt;
    await this.#ports.rotation
      .retry(address, rejected, judge(first), { send, judge, isOverdue })
      .catch((error: unknown) => {
        // That a later request could not be sent must not hide what the gateway has answered.
        if (error instanceof Refusal && exchange.writtenAttempts === written) return;
        last.rest?.destroy();
        throw error;
      });
    if (judge(last) === 'accepted') exchange.rejection = 'other-key';
    return last;
  }

  async #deliver(errand: Errand, use: MutableUse, endsAt: number): Promise<GatewayReply> {
    const budget: Budget = { unsent: 2, stale: errand.destination.operation.repeatable ? 1 : 0 };
    let ownConnection = !errand.destination.operation.repeatable;
    for (;;) {
      try {
        return await this.#cross(errand, await this.#sign(errand, use), ownConnection, endsAt);
      } catch (failure) {
        if (!(failure instanceof CrossingFailure)) throw failure;
        this.#noteUnreachable(errand, failure);
        const delay = 50 + 150 * this.#ports.random();
        const timeLeft = this.#ports.monotonic() + delay < endsAt;
        if (!timeLeft || !mayTryAgain(failure, budget)) throw refusalFor(failure, errand.destination);
        ownConnection = true;
        await wait(delay);
      }
    }
  }

  #noteUnreachable({ exchange, destination }: Errand, { unreachable: cause }: CrossingFailure): void {
    if (cause === undefined) return;
    const { environment, operation } = destination;
    exchange.unreachable = cause;
    this.#ports.meter.gatewayUnreachable({ environment, operation: operation.name, cause });
  }

  /** While a payment waits for its signature or for another connection, the gateway may change the key. */
  async #sign(errand: Errand, use: MutableUse): Promise<Post> {
    const { rotation, monotonic } = this.#ports;
    const address = addressOf(errand);
    for (;;) {
      const post = await signedPost(errand, use.key, this.#ports);
      use.sentAt = monotonic();
      if (maySendAgain(errand) || !rotation.isOutdated(address, use.key)) return post;
      const key = await rotation.choose(address, use.key.kind, 'careful');
      if (sameKey(key, use.key)) return post;
      use.key = key;
    }
  }

  /** A server error says nothing about the key. */
  #judge(reply: GatewayReply): Verdict {
    if (reply.status === 403) return isSkewed(reply, this.#ports.clock()) ? 'clock-skew' : 'rejected';
    return reply.status === 401 || reply.status >= 500 ? 'unclear' : 'accepted';
  }

  async #cross(errand: Errand, post: Post, ownConnection: boolean, endsAt: number): Promise<GatewayReply> {
    const { monotonic, forwarders, meter, clock } = this.#ports;
    const { exchange, destination, memory } = errand;
    const { environment, settings, operation } = destination;
    const forwarder = forwarders.get(environment);
    if (forwarder === undefined) throw new TypeError(`no forwarder for ${environment}`);
    const startedAt = monotonic();
    // Whole milliseconds: Node keeps a list of timers for every duration there is.
    const left = Math.max(0, Math.ceil(endsAt - startedAt));
    exchange.attempts += 1;
    try {
      const reply = await forwarder.send(post, {
        ownConnection,
        connect: Math.min(settings.deadlines.connect, left),
        exchange: left,
        memory,
        onConnected() {
          exchange.writtenAttempts = (exchange.writtenAttempts ?? 0) + 1;
        },
      });
      exchange.gatewayStatus = reply.status;
      const clockSkew = skewOf(reply.headers.date, clock());
      const seen = { environment, operation: operation.name, status: reply.status };
      const seconds = (monotonic() - startedAt) / 1000;
      meter.gatewayReplied({ ...seen, seconds, ...(clockSkew === undefined ? {} : { clockSkew }) });
      return reply;
    } finally {
      exchange.durations.gateway = (exchange.durations.gateway ?? 0) + (monotonic() - startedAt) / 1000;
    }
  }
}

/** A key source that is slow must not hold a caller for longer than the gateway may. */
async function inTime<T>(work: Promise<T>, deadline: number, { login }: KeyAddress): Promise<T> {
  const overdue = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const detail = `The keys of login "${login}" did not come within ${deadline / 1000} s. Send the request again later.`;
    overdue.reject(new Refusal('key-source-unavailable', detail, { retryAfter: 5 }));
  }, deadline);
  try {
    return await Promise.race([work, overdue.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function maySendAgain({ destination: { operation } }: Errand): boolean {
  return operation.repeatable || operation.repeatAfterRejection;
}

function addressOf({ destination, login }: Errand): KeyAddress {
  return { environment: destination.environment, login };
}

function mayTryAgain(failure: CrossingFailure, budget: Budget): boolean {
  if (!failure.written) {
    budget.unsent -= 1;
    return budget.unsent >= 0;
  }
  budget.stale -= failure.stalePool ? 1 : 0;
  return failure.stalePool && budget.stale >= 0;
}
