import type { VirtualClock } from '../support/virtual-clock.ts';
import type { Gateway, Judged } from './gateway.ts';
import { type Form, rotating } from './schedule.ts';
import type { Vault } from './vault.ts';

/** A request to the gateway. */
export interface Attempt {
  readonly form: Form;
  readonly key: string;
  readonly sentAt: number;
  /** Whether a payment was signed with another key than the current one. */
  readonly isTrial: boolean;
  /** Whether another payment of the caller was doing so. */
  readonly isBesideTrial: boolean;
}

/** A request of a client, as it ended. */
export interface Ended {
  readonly form: Form;
  /** The status that the client got, or the reason of Countersign's own response. */
  readonly end: number | string;
  readonly startedAt: number;
  /** Milliseconds that it was at the gateway. */
  readonly upstream: number;
  /** The keys that the instance had in memory when it began, newest first. */
  readonly keysBefore: readonly string[];
  readonly last: Attempt | undefined;
}

export const placeOf = ({ caller, endpoint }: Form): string => `${caller} ${endpoint}`;

/** Since when what is true of gateway and Vault. */
export class Agreement {
  readonly vault: Vault;
  readonly gateway: Gateway;
  readonly #time: VirtualClock;
  /** Since when all nodes accept a key that Vault has; `undefined`: they do not. */
  since: number | undefined;
  /** When the gateway last changed. */
  #changedAt = 0;
  #keys = '';

  constructor(time: VirtualClock, vault: Vault, gateway: Gateway) {
    this.#time = time;
    this.vault = vault;
    this.gateway = gateway;
    this.update();
  }

  /** Something may have changed. */
  update(): void {
    const { gateway, vault } = this;
    if (gateway.keys !== this.#keys) [this.#keys, this.#changedAt] = [gateway.keys, this.#time.now];
    const isSo = gateway.agrees && vault.keysOf(rotating).some((key) => gateway.accepts(key));
    this.since = isSo ? (this.since ?? this.#time.now) : undefined;
  }

  /** Since when a request of an instance can succeed, and its keys are the same. */
  forInstance(bornAt: number): number {
    return Math.max(this.since ?? this.#time.now, this.#changedAt, bornAt);
  }
}

/** Milliseconds after which a rejection is late, and after an illness of Vault in which what fails is its fault. */
const [late, convalescence] = [2_000, 3_000];

/** When an instance saw what: names the rejections that the promises exclude where gateway, callers and Vault are well. */
export class Notices {
  readonly #agreement: Agreement;
  readonly #bornAt: number;
  /** When a key was first rejected since gateway and Vault agree: by caller, endpoint and key. */
  readonly #first = new Map<string, number>();

  constructor(agreement: Agreement, bornAt: number) {
    this.#agreement = agreement;
    this.#bornAt = bornAt;
  }

  received({ form, key }: Attempt, { response }: Judged, now: number): void {
    if (response?.status !== 403 || form.login !== rotating) return;
    if (this.#noticedAt(form, key) === undefined) this.#first.set(`${placeOf(form)} ${key}`, now);
  }

  /** @param roundTrip milliseconds on the way to the gateway and back at most */
  lateRejection({ end, form, last, startedAt, keysBefore }: Ended, roundTrip: number): string | undefined {
    const { gateway, vault, since: agreedAt } = this.#agreement;
    if (end !== 403 || last === undefined || agreedAt === undefined) return undefined;
    if (!vault.isWellFor(convalescence)) return undefined;
    if (form.operation === 'query') {
      if (startedAt > this.#agreement.forInstance(this.#bornAt) + late + roundTrip)
        return 'query 403: later than 2 s after gateway and Vault agree';
      const hadIt = startedAt > agreedAt && keysBefore.some((key) => gateway.accepts(key));
      return hadIt ? 'query 403: earlier, although the ring had the key' : undefined;
    }
    const { key, sentAt, isTrial, isBesideTrial } = last;
    const noticedAt = this.#noticedAt(form, key) ?? sentAt;
    const isLate = sentAt - noticedAt > late && !isTrial && !isBesideTrial && !gateway.accepts(key);
    return isLate ? 'payment 403: with a rejected key for more than 2 s' : undefined;
  }

  #noticedAt(form: Form, key: string): number | undefined {
    const at = this.#first.get(`${placeOf(form)} ${key}`);
    return at !== undefined && at >= this.#agreement.forInstance(this.#bornAt) ? at : undefined;
  }
}
