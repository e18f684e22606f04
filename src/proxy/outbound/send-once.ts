import type { KeyObject } from 'node:crypto';
import { ProxyError } from '../../errors.ts';
import type { Operation } from '../../gateway/operations.ts';
import { isRejection } from '../../gateway/response.ts';
import { orderIdNames, orderIdsIn } from '../../identifiers.ts';
import type { EventObserver } from '../../observability/events.ts';
import { type Claim, type ClaimEnd, claimName, claimText, formDigest, parseClaim } from '../../once/claim.ts';
import { type ClaimStore, StoreUnavailable } from '../../once/store.ts';
import type { RequestRecord } from '../../request-context.ts';
import { inSpan } from '../../trace.ts';
import { isoTime, type MonotonicClock, type WallClock } from '../../util/clock.ts';
import { SlotList } from '../../util/slot-list.ts';
import { outcomeWithoutResponse, unknownPaymentAdvice } from '../outcome.ts';
import type { ValidatedRequest } from './signed-request.ts';
import type { GatewayResponse } from './upstream-request.ts';

export interface SendOnceOptions extends WallClock, MonotonicClock {
  readonly store: ClaimStore;
  /** Of the digests. */
  readonly key: KeyObject;
  readonly metrics: Pick<EventObserver, 'claimMade'>;
}

type Payment = Omit<ValidatedRequest, 'memory'>;

/** A claim of this request, in a store. */
interface Own {
  readonly name: string;
  readonly claim: Claim;
}

/** Sends a payment unless one with the same order ID was sent: it claims the order before anything is signed. */
export class SendOnce {
  readonly #options: SendOnceOptions;
  /** What is claimed, sent or released at the moment. */
  readonly #payments = new SlotList<Payment>();

  constructor(options: SendOnceOptions) {
    this.#options = options;
  }

  /**
   * @param send does all the rest
   * @throws ProxyError `duplicate-payment`, `order-id-reused`, `claims-unavailable`, or `parameter-invalid` without an order
   *   ID. Else as `send`
   */
  async send<R extends Pick<GatewayResponse, 'status'>>(
    payment: Payment,
    send: () => Promise<R>,
  ): Promise<R> {
    const end = this.#payments.add(payment);
    try {
      return await this.#send(payment, send);
    } finally {
      end();
    }
  }

  /** Resolves when no payment is in progress, so that each claim of what was not sent is released. */
  idle(): Promise<void> {
    return this.#payments.empty();
  }

  async #send<R extends Pick<GatewayResponse, 'status'>>(
    payment: Payment,
    send: () => Promise<R>,
  ): Promise<R> {
    const own = await inSpan('payment claim', () => this.#claim(payment));
    try {
      const response = await send();
      const { status } = response;
      if (isRejection(status)) await this.#release(own);
      else this.#end(own, { outcome: 'answered', status });
      return response;
    } catch (error) {
      if (outcomeWithoutResponse(payment.record) === 'not-sent') await this.#release(own);
      else this.#end(own, { outcome: 'unknown' });
      throw error;
    }
  }

  async #claim({ record, destination, login, form }: Payment): Promise<Own> {
    const { store, key, clock, monotonic, metrics } = this.#options;
    const startedAt = monotonic();
    const { environment, operation, values } = destination;
    const order = { environment, login, operation: operation.name, orderId: orderIdOf(operation, form) };
    const name = claimName(key, order);
    const claim = { requestId: record.id, form: formDigest(key, values, form), at: clock() };
    const stored = await store
      .claim(name, claimText(claim))
      .catch(unavailable)
      .finally(() => {
        record.durations.claim = (monotonic() - startedAt) / 1000;
        metrics.claimMade(environment, record.durations.claim);
      });
    if (stored === undefined) return { name, claim };
    const first = parseClaim(stored);
    throw first === undefined || first.form === claim.form ? repeated(first, record) : reused(first);
  }

  /** Nothing was sent, or the gateway rejected it: the same order ID may be sent again, as soon as this resolves. */
  async #release({ name, claim }: Own): Promise<void> {
    await this.#options.store.replace(name, claimText(claim));
  }

  /** Nobody waits for it. */
  #end({ name, claim }: Own, end: ClaimEnd): void {
    void this.#options.store.replace(name, claimText(claim), claimText({ ...claim, end }));
  }
}

function orderIdOf({ orderId: ownName }: Operation, form: Payment['form']): string {
  const named = form.flatMap(([name, value]) => (name === ownName ? [value] : []));
  const [orderId = '', ...others] = new Set([...named, ...orderIdsIn(form)]);
  if (orderId !== '' && others.length === 0) return orderId;
  throw new ProxyError(
    'parameter-invalid',
    `"${ownName ?? orderIdNames[0]}" is required, once: by it Countersign recognizes a payment that was sent before.`,
  );
}

/** @param first absent if what is stored cannot be read: whoever stored it may have sent the payment */
function repeated(first: Claim | undefined, record: RequestRecord): ProxyError {
  record.firstRequestId = first?.requestId ?? 'unknown';
  return new ProxyError('duplicate-payment', `${describe(first)} ${unknownPaymentAdvice}`);
}

function reused(first: Claim): ProxyError {
  return new ProxyError(
    'order-id-reused',
    `${describe(first)} It had other parameters, or another endpoint. Nothing was sent now. If it is the same payment, query the status of this order; only another payment gets another order ID.`,
  );
}

function describe(claim: Claim | undefined): string {
  if (claim === undefined) return 'This order ID was sent before, by a request of which nothing is known.';
  const { requestId, at, end } = claim;
  const sent = `This order ID was sent before, by request ${requestId} at ${isoTime(at)}`;
  if (end === undefined) return `${sent}, of which no end is known.`;
  if (end.outcome === 'unknown') return `${sent}, whose outcome is unknown.`;
  return `${sent}; the gateway responded with status ${end.status ?? 'unknown'}.`;
}

/** @throws ProxyError; anything but a {@link StoreUnavailable} as it is */
function unavailable(error: unknown): never {
  if (!(error instanceof StoreUnavailable)) throw error;
  throw new ProxyError(
    'claims-unavailable',
    'The order ID could not be claimed, so nothing was sent. Send the payment again under the same order ID.',
    { retryAfter: 1, cause: error },
  );
}
