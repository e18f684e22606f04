import { ProxyError } from '../errors.ts';
import type { SignRemotely } from '../keys/key-source.ts';
import { type LoginRef, loginRefString } from '../keys/login-ref.ts';
import type { UsableKey } from '../keys/ring.ts';
import { type Signed, sign, signWith, type Unsigned } from '../oauth1/sign.ts';
import type { EventObserver } from '../observability/events.ts';
import { setTimer } from '../util/clock.ts';
import { TokenBucket } from '../util/token-bucket.ts';
import { inSpan } from '../util/trace.ts';

interface SigningLimits {
  /** RSA signatures made concurrently. */
  readonly concurrency: number;
  /** Queued RSA signatures. */
  readonly maxQueue: number;
}

/** Signatures with keys that do not leave Vault. */
interface RemoteSigning {
  readonly sign: SignRemotely;
  readonly maxInFlight: number;
  readonly maxPerSecond: number;
}

/** The part of the limits of signatures in Vault that one login may use, so that it cannot use up those of others. */
const loginShare = 0.5;
/** Milliseconds that a request waits at most for its turn to be signed for in Vault. */
const maxWait = 1_000;

/**
 * Signs HMAC directly and RSA with limited concurrency and a bounded queue. RSA runs in libuv's thread pool, which
 * also serves DNS lookups and file reads, so signatures must never occupy all of its threads. A key that does not leave
 * Vault signs there, within other limits.
 */
export class SigningPool {
  readonly #metrics: Pick<EventObserver, 'signed' | 'signingQueueChanged'>;
  readonly #monotonic: () => number;
  readonly #slots: Slots;
  readonly #signRemotely: SignRemotely | undefined;

  /** @param monotonic milliseconds of a monotonic clock */
  constructor(
    { concurrency, maxQueue }: SigningLimits,
    metrics: Pick<EventObserver, 'signed' | 'signingQueueChanged'>,
    monotonic: () => number,
    remote?: RemoteSigning,
  ) {
    this.#metrics = metrics;
    this.#monotonic = monotonic;
    this.#slots = new Slots(concurrency, maxQueue, {
      changed: (depth) => metrics.signingQueueChanged(depth),
    });
    this.#signRemotely = remote && bounded(remote, maxQueue, monotonic);
  }

  /** @throws ProxyError `overloaded` if the queue is full; those of {@link SignRemotely} */
  async sign(request: Unsigned, key: UsableKey['key'], login: LoginRef): Promise<Signed> {
    if ('publicKey' in key) {
      const signRemotely = this.#signRemotely;
      if (signRemotely === undefined) throw new TypeError('the key source does not sign');
      return await signWith(request, (baseString) => signRemotely(login, key, baseString));
    }
    const startedAt = this.#monotonic();
    const signed = await (key.kind === 'control_key'
      ? sign(request, key)
      : this.#slots.run(() => sign(request, key)));
    this.#metrics.signed(request.signatureMethod, (this.#monotonic() - startedAt) / 1000);
    return signed;
  }
}

/** Bounds signatures in Vault in number and rate, of all logins and of each. */
function bounded(
  { sign: signInVault, maxInFlight, maxPerSecond }: RemoteSigning,
  maxQueue: number,
  monotonic: () => number,
): SignRemotely {
  const slots = new Slots(maxInFlight, maxQueue, { maxWait, perGroup: Math.ceil(maxInFlight * loginShare) });
  const maxPending = Math.ceil((maxInFlight + maxQueue) * loginShare);
  const newRate = (share: number): TokenBucket => {
    const rate = Math.ceil(maxPerSecond * share);
    return new TokenBucket({ burst: rate, rate, monotonic });
  };
  const rateOfAll = newRate(1);
  /** Only logins that have such a key; `pending` is in flight and queued. */
  const logins = new Map<string, Group & { pending: number; readonly rate: TokenBucket }>();
  return async (login, key, baseString) => {
    const name = loginRefString(login);
    const known = logins.get(name) ?? { running: 0, pending: 0, rate: newRate(loginShare) };
    logins.set(name, known);
    if (known.pending >= maxPending || !known.rate.take() || !rateOfAll.take()) {
      throw overloaded(
        'Too many signatures in Vault at once, of this login or of all (keys.vault.transit). Nothing was sent. Retry later.',
      );
    }
    known.pending += 1;
    try {
      return await slots.run(() => signInVault(login, key, baseString), known);
    } finally {
      known.pending -= 1;
    }
  };
}

/** What shares a part of the slots. */
interface Group {
  running: number;
}

interface SlotsOptions {
  /** The number of those that wait has changed. */
  readonly changed?: (depth: number) => void;
  /** Milliseconds to wait for a slot at most. */
  readonly maxWait?: number;
  /** Slots that one group may have. */
  readonly perGroup?: number;
}

/** Limits how much runs concurrently, in all and of each group, with a bounded queue. */
class Slots {
  readonly #concurrency: number;
  readonly #maxQueue: number;
  readonly #options: SlotsOptions;
  /** While a slot is free, all that wait are of groups that have all of theirs. */
  readonly #queue = new Set<{ readonly group: Group; readonly proceed: () => void }>();
  readonly #all: Group = { running: 0 };

  constructor(concurrency: number, maxQueue: number, options: SlotsOptions) {
    this.#concurrency = concurrency;
    this.#maxQueue = maxQueue;
    this.#options = options;
  }

  /** @throws ProxyError `overloaded` if the queue is full, or the wait too long */
  async run<T>(work: () => Promise<T>, group: Group = { running: 0 }): Promise<T> {
    if (this.#isFree(group)) this.#count(group, 1);
    else await this.#wait(group);
    try {
      return await work();
    } finally {
      this.#release(group);
    }
  }

  #isFree({ running }: Group): boolean {
    const { perGroup = Number.POSITIVE_INFINITY } = this.#options;
    return this.#all.running < this.#concurrency && running < perGroup;
  }

  #count(group: Group, change: 1 | -1): void {
    this.#all.running += change;
    group.running += change;
  }

  async #wait(group: Group): Promise<void> {
    if (this.#queue.size >= this.#maxQueue) throw overloaded('The signing queue is full.');
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const { maxWait: limit } = this.#options;
    const cancel =
      limit === undefined
        ? undefined
        : setTimer(() => {
            this.#queue.delete(waiting);
            reject(overloaded('The signature in Vault did not get its turn in time. Nothing was sent.'));
          }, limit);
    const proceed = (): void => {
      cancel?.();
      resolve();
    };
    const waiting = { group, proceed };
    this.#queue.add(waiting);
    this.#options.changed?.(this.#queue.size);
    await inSpan('wait for a signing slot', () => promise);
  }

  /** Passes the slot to the one that has waited longest and may have it. */
  #release(group: Group): void {
    this.#count(group, -1);
    for (const next of this.#queue) {
      if (!this.#isFree(next.group)) continue;
      this.#queue.delete(next);
      this.#count(next.group, 1);
      next.proceed();
      break;
    }
    this.#options.changed?.(this.#queue.size);
  }
}

function overloaded(detail: string): ProxyError {
  return new ProxyError('overloaded', detail, { retryAfter: 1 });
}
