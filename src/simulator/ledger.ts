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
  readonly #capacity: number;
  #lastOrderId = 0n;

  /** @param capacity number of added orders; the oldest are dropped first */
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
    this.#lastOrderId = this.#initial
      .map(({ orderId }) => BigInt(orderId))
      .reduce((last, id) => (id > last ? id : last), 0n);
  }

  /** Adds an order under the next order id, even if its `clientOrderId` was used before. */
  add(order: Omit<Order, 'orderId'>): Order {
    this.#lastOrderId += 1n;
    const added = { ...order, orderId: String(this.#lastOrderId) };
    this.#added.push(added);
    if (this.#added.length > this.#capacity) this.#added.shift();
    return added;
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
