import type { Scenario, Stage } from './scenario.ts';

export interface Order {
  readonly login: string;
  readonly endpoint: string;
  readonly clientOrderId: string;
  readonly orderId: string;
  /** Oldest first; a status query shows the last one. */
  readonly stages: Stage[];
  /** Milliseconds since 1970: a status query finds it from then on. */
  foundFrom?: number;
  /** Milliseconds since 1970: until then its last stage is in progress. */
  processingUntil?: number;
  /** The last stage while it is in progress. */
  meanwhile?: Stage;
}

/** Of a request that made no order, and no further stage of one (docs/gateway-interface.md section 4.2): why. */
interface Failure {
  readonly login: string;
  readonly clientOrderId: string;
  readonly serialNumber: string;
  readonly problem: readonly [message: string, code: string];
}

/** docs/gateway-interface.md section 4.2. `orderId` is only needed if `clientOrderId` is not unique for the merchant. */
interface OrderQuery {
  readonly login: string;
  /** The endpoint of the path, or those of its group. */
  readonly endpoints: readonly string[];
  readonly clientOrderId: string;
  readonly orderId?: string | undefined;
}

/** The orders of the scenario, and those that requests add. */
export class Ledger {
  readonly #scenario: Scenario['orders'];
  #initial: readonly Order[] = [];
  #added: Order[] = [];
  #failures: Failure[] = [];
  readonly #capacity: number;
  #lastOrderId = 0n;

  /** @param capacity number of added orders, and of failures; the oldest are dropped first */
  constructor(orders: Scenario['orders'], capacity: number) {
    this.#scenario = orders;
    this.#capacity = capacity;
    this.reset();
  }

  /** Returns to the orders of the scenario. The next order id is the one after theirs again. */
  reset(): void {
    this.#initial = this.#scenario.map(({ client_orderid, orderid, stages, ...order }) => ({
      ...order,
      clientOrderId: client_orderid,
      orderId: orderid,
      stages: [...stages],
    }));
    this.#added = [];
    this.#failures = [];
    this.#lastOrderId = this.#initial
      .map(({ orderId }) => BigInt(orderId))
      .reduce((last, id) => (id > last ? id : last), 0n);
  }

  /** Adds an order under the next order id, even if its `clientOrderId` was used before. */
  add(order: Omit<Order, 'orderId'>): Order {
    this.#lastOrderId += 1n;
    const added = { ...order, orderId: String(this.#lastOrderId) };
    this.#added.push(added);
    // An order that was made is what its ID leads to, also while it is not found yet.
    this.#failures = this.#failures.filter(
      ({ login, clientOrderId }) => login !== added.login || clientOrderId !== added.clientOrderId,
    );
    if (this.#added.length > this.#capacity) this.#added.shift();
    return added;
  }

  addFailure(failure: Failure): void {
    this.#failures.push(failure);
    if (this.#failures.length > this.#capacity) this.#failures.shift();
  }

  /** Why the last request for an order, or the one with this serial number, made nothing. */
  problemOf(login: string, clientOrderId: string, serialNumber?: string): Failure['problem'] | undefined {
    return this.#failures.findLast(
      (failure) =>
        failure.login === login &&
        failure.clientOrderId === clientOrderId &&
        (serialNumber ?? failure.serialNumber) === failure.serialNumber,
    )?.problem;
  }

  find({ login, endpoints, clientOrderId, orderId }: OrderQuery): Order | 'unknown' | 'ambiguous' {
    const [order, ...others] = [...this.#initial, ...this.#added].filter(
      (order) =>
        order.login === login &&
        order.clientOrderId === clientOrderId &&
        (orderId === undefined || order.orderId === orderId),
    );
    if (others.length > 0) return 'ambiguous';
    return order && endpoints.includes(order.endpoint) ? order : 'unknown';
  }
}
