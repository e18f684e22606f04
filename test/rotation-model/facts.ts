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
  #changedAt = 0;
  #keys = '';

  constructor(time: VirtualTime, vault: Vault, gateway: Gateway) {
    this.#time = time;
    this.vault = vault;
    this.gateway = gateway;
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

/** When an instance first saw a key rejected since gateway and Vault agree: by caller, endpoint and key. */
export class Notices {
  readonly #first = new Map<string, number>();

  /** @param since when gateway and Vault began to agree, or the instance was started */
  received({ form, key }: Attempt, { response }: Judged, now: number, since: number): void {
    if (!isRejected(response?.status) || form.login !== rotating) return;
    if (this.of(form, key, since) === undefined) this.#first.set(`${placeOf(form)} ${key}`, now);
  }

  of(form: Form, key: string, since: number): number | undefined {
    const at = this.#first.get(`${placeOf(form)} ${key}`);
    return at !== undefined && at >= since ? at : undefined;
  }
}

/** Milliseconds after which a rejection is late, and after an illness of Vault in which what fails is its fault. */
const [late, convalescence] = [2_000, 3_000];

interface Circumstances {
  readonly agreement: Agreement;
  readonly notices: Notices;
  readonly bornAt: number;
  /** Milliseconds on the way to the gateway and back at most. */
  readonly roundTrip: number;
}

/** Names what the promises exclude where gateway, callers and Vault are as they should be. */
export function lateRejection(ended: Ended, about: Circumstances): string | undefined {
  const { end, form, last, startedAt, keysBefore } = ended;
  const { agreement, notices, bornAt, roundTrip } = about;
  const { gateway } = agreement;
  if (!isRejected(end) || last === undefined || agreement.since === undefined) return undefined;
  if (!agreement.vault.isWellFor(convalescence)) return undefined;
  const since = agreement.forInstance(bornAt);
  if (form.operation === 'query') {
    if (startedAt > since + late + roundTrip)
      return 'query 403: later than 2 s after gateway and Vault agree';
    const hadIt = startedAt > agreement.since && keysBefore.some((key) => gateway.accepts(key));
    return hadIt ? 'query 403: earlier, although the ring had the key' : undefined;
  }
  const { key, sentAt, isTrial, isBesideTrial } = last;
  const noticedAt = notices.of(form, key, since);
  if (isTrial || isBesideTrial || gateway.accepts(key) || noticedAt === undefined) return undefined;
  return sentAt - noticedAt > late ? 'payment 403: with a rejected key for more than 2 s' : undefined;
}
