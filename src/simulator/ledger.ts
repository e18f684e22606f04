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
  /** Fields of the last stage while it is in progress. */
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

/** The orders of the scenario, those that requests add, and what each status response showed. */
export class Ledger {
  readonly #scenario: Scenario['orders'];
  #initial: readonly Order[] = [];
  #added: Order[] = [];
  readonly #shown = new Map<string, { readonly order: Order; readonly stage: Stage }>();
  readonly #capacity: { readonly orders: number; readonly responses: number };
  #lastOrderId = 0n;

  /** @param capacity numbers of added orders, and of serial numbers of status responses; the oldest are dropped first */
  constructor(orders: Scenario['orders'], capacity: { orders: number; responses: number }) {
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
    this.#shown.clear();
    this.#lastOrderId = this.#initial
      .map(({ orderId }) => BigInt(orderId))
      .reduce((last, id) => (id > last ? id : last), 0n);
  }

  /** Adds an order under the next order id, even if its `clientOrderId` was used before. */
  add(order: Omit<Order, 'orderId'>): Order {
    this.#lastOrderId += 1n;
    const added = { ...order, orderId: String(this.#lastOrderId) };
    this.#added.push(added);
    if (this.#added.length > this.#capacity.orders) this.#added.shift();
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

  /** The state of the order after one request: one that led to a stage, or an earlier status query. */
  stageAt(order: Order, serialNumber: string): Stage | undefined {
    const shown = this.#shown.get(serialNumber);
    return (
      order.stages.find((stage) => stage['serial-number'] === serialNumber) ??
      (shown?.order === order ? shown.stage : undefined)
    );
  }

  /** Records what the status response with this serial number showed. */
  recordResponse(serialNumber: string, order: Order, stage: Stage): void {
    this.#shown.set(serialNumber, { order, stage });
    for (const oldest of this.#shown.keys()) {
      if (this.#shown.size <= this.#capacity.responses) return;
      this.#shown.delete(oldest);
    }
  }
}
