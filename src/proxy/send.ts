import { setTimeout as wait } from 'node:timers/promises';
import { Refusal } from '../errors.ts';
import type { Exchange } from '../exchange.ts';
import type { Destination } from '../gateway/resolve.ts';
import type { KeyAddress, UsableKey } from '../keys/source.ts';
import { methods } from '../oauth1/methods.ts';
import type { Meter } from '../ops/meter.ts';
import type { NetworkFailure } from '../util/network-failure.ts';
import { CrossingFailure, type GatewayReply, type Post } from './crossing.ts';
import type { Forwarder } from './forward.ts';
import { unknownOutcomeAdvice } from './outcome.ts';
import { type Errand, type PostPorts, signedPost } from './post.ts';
import type { Rotation } from './rotation.ts';

export interface SenderPorts extends PostPorts {
  readonly rotation: Rotation;
  /** One per environment. */
  readonly forwarders: ReadonlyMap<string, Forwarder>;
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
    const { rotation, monotonic } = this.#ports;
    const { exchange, destination, login } = errand;
    const { operation, settings } = destination;
    const address: KeyAddress = { environment: destination.environment, login };
    const maySendAgain = operation.repeatable || operation.repeatAfterRejection;
    const startedAt = monotonic();
    const { kind } = methods[operation.signature];
    const choice = rotation.choose(address, kind, maySendAgain ? 'bold' : 'careful');
    const key = await inTime(choice, settings.deadlines.exchange, address);
    exchange.durations.key = (monotonic() - startedAt) / 1000;
    const endsAt = startedAt + settings.deadlines.exchange;
    const reply = await this.#deliver(errand, key, endsAt);
    if (isAccepted(reply)) rotation.noteAcceptance(address, key);
    if (reply.status !== 403) return reply;
    exchange.rejection = isSkewed(reply, this.#ports.clock()) ? 'clock-skew' : 'current-key';
    if (!maySendAgain) {
      rotation.noteRefusal(address, key);
      return reply;
    }
    const again = (other: UsableKey): Promise<GatewayReply> => this.#deliver(errand, other, endsAt);
    const failed = inPlaceOf(reply, exchange);
    const second = await rotation.retry(address, key, again, isAccepted).catch(failed);
    if (second === undefined) return reply;
    if (isAccepted(second)) exchange.rejection = 'other-key';
    reply.rest?.destroy();
    return second;
  }

  async #deliver(errand: Errand, key: UsableKey, endsAt: number): Promise<GatewayReply> {
    const budget: Budget = { unsent: 2, stale: errand.destination.operation.repeatable ? 1 : 0 };
    let ownConnection = !errand.destination.operation.repeatable;
    for (;;) {
      try {
        return await this.#cross(errand, await signedPost(errand, key, this.#ports), ownConnection, endsAt);
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

/** A server error says nothing about the key. */
function isAccepted(reply: GatewayReply): boolean {
  return reply.status !== 401 && reply.status !== 403 && reply.status < 500;
}

/**
 * The gateway has answered the first request; that nothing of a second could be sent must not hide that. Any
 * other failure takes the place of that answer.
 */
function inPlaceOf({ rest }: GatewayReply, exchange: Exchange): (error: unknown) => undefined {
  const written = exchange.writtenAttempts;
  return (error) => {
    if (error instanceof Refusal && exchange.writtenAttempts === written) return;
    rest?.destroy();
    throw error;
  };
}

function mayTryAgain(failure: CrossingFailure, budget: Budget): boolean {
  if (!failure.written) {
    budget.unsent -= 1;
    return budget.unsent >= 0;
  }
  budget.stale -= failure.stalePool ? 1 : 0;
  return failure.stalePool && budget.stale >= 0;
}

/** What the gateway tolerates is not shown (interface section 5.4); beyond this its clock is worth a look. */
const suspiciousSkew = 60;

function isSkewed(reply: GatewayReply, now: number): boolean {
  return Math.abs(skewOf(reply.headers.date, now) ?? 0) > suspiciousSkew;
}

/** Seconds by which the gateway's clock is ahead of ours. */
function skewOf(date: string | undefined, now: number): number | undefined {
  const at = Date.parse(date ?? '');
  return Number.isNaN(at) ? undefined : (at - now) / 1000;
}

/** For the caller, who cannot do anything about it, and for whom the caller asks. */
const unreachableTexts: Readonly<Record<NetworkFailure, string>> = {
  dns: "The gateway's host name could not be resolved (DNS).",
  refused: 'The gateway refused the connection.',
  timeout: 'The gateway did not accept a connection in time (timeout).',
  tls: 'The TLS handshake with the gateway failed (TLS).',
  other: 'No connection could be made.',
};

function refusalFor(failure: CrossingFailure, { settings }: Destination): Refusal {
  const details = {
    'gateway-unreachable': `${unreachableTexts[failure.unreachable ?? 'other']} Nothing was sent; it is safe to send the request again.`,
    'gateway-timeout': `There was no complete answer within ${settings.deadlines.exchange / 1000} s. ${unknownOutcomeAdvice}`,
    'gateway-reset': `The connection ended before the answer was complete. ${unknownOutcomeAdvice}`,
    'gateway-reply-invalid': `What came back is not a valid HTTP answer. ${unknownOutcomeAdvice}`,
  };
  return new Refusal(failure.reason, details[failure.reason], { cause: failure });
}
