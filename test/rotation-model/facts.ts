import type { Form, Gateway, Judged } from './gateway.ts';
import { rotating } from './schedule.ts';
import type { Vault } from './vault.ts';
import type { VirtualTime } from './virtual-time.ts';

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

export function isRejected(status: number | string | undefined): boolean {
  return status === 401 || status === 403;
}

export const placeOf = ({ caller, endpoint }: Form): string => `${caller} ${endpoint}`;

/** Since when what is true of gateway and Vault. */
export class Agreement {
  readonly vault: Vault;
  readonly gateway: Gateway;
  readonly #time: VirtualTime;
  /** Since when all nodes accept a key that Vault has; `undefined`: they do not. */
  since: number | undefined;
  /** When the gateway last changed. */
  changedAt = 0;
  #keys = '';

  constructor(time: VirtualTime, vault: Vault, gateway: Gateway) {
    this.#time = time;
    this.vault = vault;
    this.gateway = gateway;
  }

  /** Something may have changed. */
  update(): void {
    const { gateway, vault } = this;
    if (gateway.keys !== this.#keys) [this.#keys, this.changedAt] = [gateway.keys, this.#time.now];
    const isSo = gateway.agrees && vault.keysOf(rotating).some((key) => gateway.accepts(key));
    this.since = isSo ? (this.since ?? this.#time.now) : undefined;
  }

  /** Since when a request of an instance can succeed, and its keys are the same. */
  forInstance(bornAt: number): number {
    return Math.max(this.since ?? this.#time.now, this.changedAt, bornAt);
  }
}

/** What an instance could know of the rejected keys of the login that rotates. */
export class Notices {
  /** When the first rejection came since gateway and Vault agree: by key, and by caller and endpoint. */
  readonly #byKey = new Map<string, number>();
  readonly #byPlace = new Map<string, number>();

  /** @param since when gateway and Vault began to agree, or the instance was started */
  received({ form, key }: Attempt, { response }: Judged, now: number, since: number): void {
    if (!isRejected(response?.status) || form.login !== rotating) return;
    if (this.ofKey(key, since) === undefined) this.#byKey.set(key, now);
    if (this.ofPlace(form, since) === undefined) this.#byPlace.set(placeOf(form), now);
  }

  ofKey(key: string, since: number): number | undefined {
    const at = this.#byKey.get(key);
    return at !== undefined && at >= since ? at : undefined;
  }

  ofPlace(form: Form, since: number): number | undefined {
    const at = this.#byPlace.get(placeOf(form));
    return at !== undefined && at >= since ? at : undefined;
  }
}
