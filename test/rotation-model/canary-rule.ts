import type { KeyKind } from '../../src/oauth1/methods.ts';

/** Milliseconds during which a canary covers later payments, and that a payment waits for one. */
const interval = 500;
const longestWait = 2_000;
/** Milliseconds from the choice of a key to the first byte. */
const longestSignature = 20;
/** Milliseconds of the longest step of the back-off. */
const longestStep = 30_000;
const never = Number.NEGATIVE_INFINITY;

/** What an instance knows about one kind of key when a payment arrives. */
export interface KeyView {
  /** Distinct keys, newest first, and since when. */
  readonly ring: readonly string[];
  readonly ringAt: number;
  /** The last accepted key, and since when it is that one. */
  readonly accepted: string | undefined;
  readonly acceptedSince: number;
  /** Whether that key had left the ring when it was accepted. It may come back, and be known or forgotten. */
  readonly acceptedAfterRemoval: boolean;
  /** The last accepted key, also if it was removed from the ring since; several if that is in doubt. */
  readonly acceptedBefore: ReadonlySet<string>;
  /** When a 403 for the key was last received. */
  readonly rejectedAt: (key: string) => number;
  /** Whether it was not rejected since the last accepted request was sent. */
  readonly isProven: boolean;
  /** When the first 403 since the last acceptance was received; `Infinity`: there was none. */
  readonly rejectedSince: number;
}

/** How the gateway judged a payment. */
interface PaymentJudged {
  /** Keys that every node accepted. */
  readonly accepted: readonly string[];
  readonly agreed: boolean;
  /** When what a node accepts last changed. */
  readonly changedAt: number;
  /** Since when the canary's query would be accepted with the right key; `undefined`: it would not. */
  readonly queryAcceptedSince: number | undefined;
}

interface Canary {
  readonly id: number;
  readonly beganAt: number;
  readonly endedAt: number;
  /** Status; `undefined` without a response. */
  readonly status: number | undefined;
  /** As in {@link KeyView}, when it began: a key may be accepted before the payment's response is received. */
  readonly rejectedSince: number;
}

interface Payment {
  readonly kind: KeyKind;
  readonly admittedAt: number;
  readonly awaiting: boolean;
  /** The canary that it follows, if one was due; set when that was sent. */
  canary?: Canary;
}

/** Why a payment may be rejected because of its key despite canaries. */
export type Excuse =
  | 'the ring held no newer key than the one accepted last'
  | 'the gateway switched after the canary'
  | 'the gateway nodes accepted different keys'
  | 'the gateway accepted no key of the ring'
  | 'the key of the canary was removed from the ring'
  | 'the canary got no response'
  | 'the canary was rejected for another reason'
  | 'a 403 for the accepted key came after the canary, to an earlier request or for another reason'
  | 'the canary was within a step of the back-off';

/**
 * What `keys.rotation.canary` promises: if the ring has a newer key than the last accepted one, a payment follows a
 * canary that began at most 500 ms before it, or that it waited for; and it is not rejected because of its key if
 * all nodes of the gateway have accepted one key of the ring since that canary began.
 */
export class CanaryRule {
  readonly #report: (violation: string) => void;
  readonly #viewOf: (kind: KeyKind) => KeyView;
  readonly #canaries = new Map<KeyKind, Canary>();
  /** By kind and configuration. */
  readonly #beganAt = new Map<string, number>();
  readonly #payments = new Map<number, Payment>();

  constructor(viewOf: (kind: KeyKind) => KeyView, report: (violation: string) => void) {
    this.#viewOf = viewOf;
    this.#report = report;
  }

  /** @param configuration its number; each configuration has its own canaries */
  began(kind: KeyKind, id: number, configuration: number, now: number): void {
    const name = `${kind} ${configuration}`;
    const last = this.#beganAt.get(name) ?? never;
    if (now < last + interval) this.#report(`another canary after ${now - last} ms`);
    this.#beganAt.set(name, now);
    const view = this.#viewOf(kind);
    const isSettled = view.ringAt < now && view.acceptedSince < now && view.isProven;
    if (isSettled && !isAwaiting(view) && !view.acceptedAfterRemoval)
      this.#report('a canary, though the ring holds no newer key');
    const { rejectedSince } = view;
    const endedAt = Number.POSITIVE_INFINITY;
    this.#canaries.set(kind, { id, beganAt: now, endedAt, status: undefined, rejectedSince });
  }

  ended(kind: KeyKind, id: number, status: number | undefined, now: number): void {
    const canary = this.#canaries.get(kind);
    if (canary?.id === id) this.#canaries.set(kind, { ...canary, endedAt: now, status });
  }

  waited(milliseconds: number): void {
    if (milliseconds > longestWait) this.#report(`a payment waited ${milliseconds} ms for a canary`);
  }

  admitted(request: number, kind: KeyKind, now: number): void {
    this.#payments.set(request, { kind, admittedAt: now, awaiting: isAwaiting(this.#viewOf(kind)) });
  }

  sent(request: number, now: number): void {
    const payment = this.#payments.get(request);
    if (payment === undefined) return;
    const canary = this.#canaries.get(payment.kind);
    const isRecent =
      (canary?.beganAt ?? never) > payment.admittedAt - interval ||
      (canary?.endedAt ?? never) >= payment.admittedAt;
    if (canary !== undefined && isRecent) {
      payment.canary = canary;
      return;
    }
    const view = this.#viewOf(payment.kind);
    // Changes while it waited or was signed came too late for a canary.
    const isSettled = view.ringAt < payment.admittedAt && view.acceptedSince < payment.admittedAt;
    // One that waited for the trial of another request uses the key that the trial found.
    const isDirect = now - payment.admittedAt <= longestSignature && view.isProven;
    // A key that was removed and came back while nothing was sent may still be known as the last accepted one.
    const isReturned = view.acceptedBefore.has(view.ring[0] ?? '');
    if (payment.awaiting && isSettled && isDirect && isAwaiting(view) && !isReturned) {
      this.#report(`a payment with a ${payment.kind} follows no canary`);
    }
  }

  /** The gateway rejected the payment because of its key. */
  rejected(request: number, judged: PaymentJudged): Excuse | undefined {
    const payment = this.#payments.get(request);
    const excuse = payment === undefined ? undefined : this.#excuseFor(payment, judged);
    if (excuse === undefined) {
      const key = judged.accepted.join(', ');
      this.#report(`a payment was rejected, though ${key} was accepted since before its canary`);
    }
    return excuse;
  }

  #excuseFor({ kind, canary }: Payment, judged: PaymentJudged): Excuse | undefined {
    const { ring, ringAt, accepted, rejectedAt, rejectedSince } = this.#viewOf(kind);
    const usable = ring.filter((key) => judged.accepted.includes(key));
    const { agreed, changedAt, queryAcceptedSince } = judged;
    if (!agreed) return 'the gateway nodes accepted different keys';
    if (usable.length === 0) return 'the gateway accepted no key of the ring';
    if (canary === undefined) return 'the ring held no newer key than the one accepted last';
    if (changedAt >= canary.beganAt) return 'the gateway switched after the canary';
    const isRemoved = accepted === undefined || !ring.includes(accepted);
    if (ringAt >= canary.beganAt && isRemoved) return 'the key of the canary was removed from the ring';
    const isTimeout = canary.endedAt - canary.beganAt >= longestWait;
    if (canary.status === undefined || isTimeout) return 'the canary got no response';
    // No payment is signed with a key after a 403 for it, whatever its cause.
    if (usable.every((key) => rejectedAt(key) >= canary.beganAt)) {
      return 'a 403 for the accepted key came after the canary, to an earlier request or for another reason';
    }
    if (canary.status !== 403) return undefined;
    if (queryAcceptedSince === undefined || queryAcceptedSince >= canary.beganAt) {
      return 'the canary was rejected for another reason';
    }
    const since = Math.max(changedAt, ringAt, queryAcceptedSince);
    const step = Math.min(longestStep, 1_000 + since - Math.min(since, rejectedSince, canary.rejectedSince));
    return canary.beganAt < since + step ? 'the canary was within a step of the back-off' : undefined;
  }
}

function isAwaiting({ ring, accepted }: KeyView): boolean {
  return ring.length > 1 && ring[0] !== accepted;
}
