import type { Scenario, Stage } from './scenario-shape.ts';

export interface Order {
  readonly login: string;
  readonly endpoint: string;
  readonly clientOrderId: string;
  readonly orderId: string;
  /** Oldest first; the last one is what a status query shows. */
  readonly stages: readonly Stage[];
}

/** Interface section 4.2. `orderId` is needed only where `clientOrderId` is not unique for the merchant. */
export interface OrderQuery {
  readonly login: string;
  /** The endpoint of the path, or those of its group. */
  readonly endpoints: readonly string[];
  readonly clientOrderId: string;
  readonly orderId?: string | undefined;
}

interface Capacity {
  /** How many orders that were added are kept; the oldest go first. */
  readonly orders: number;
  /** How many serial numbers given out with replies are kept, likewise. */
  readonly replies: number;
}

/** The orders of the scenario, the ones that transfers add, and what each status reply showed. */
export class Ledger {
  readonly #given: readonly Order[];
  readonly #added: Order[] = [];
  readonly #replies = new Map<string, { readonly order: Order; readonly stage: Stage }>();
  readonly #capacity: Capacity;
  #lastOrderId: bigint;

  constructor(orders: Scenario['orders'], capacity: Capacity) {
    this.#given = orders.map(({ client_orderid, orderid, ...order }) => ({
      ...order,
      clientOrderId: client_orderid,
      orderId: orderid,
    }));
    this.#capacity = capacity;
    this.#lastOrderId = this.#given
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
    const [order, ...others] = [...this.#given, ...this.#added].filter(
      (order) =>
        order.login === login &&
        order.clientOrderId === clientOrderId &&
        (orderId === undefined || order.orderId === orderId),
    );
    if (others.length > 0) return 'ambiguous';
    return order && endpoints.includes(order.endpoint) ? order : 'unknown';
  }

  /** What the order looked like after one request: the one that led to a stage, or an earlier status query. */
  stageAt(order: Order, serialNumber: string): Stage | undefined {
    const reply = this.#replies.get(serialNumber);
    return (
      order.stages.find((stage) => stage['serial-number'] === serialNumber) ??
      (reply?.order === order ? reply.stage : undefined)
    );
  }

  /** Keeps what a status reply with this serial number showed. */
  rememberReply(serialNumber: string, order: Order, stage: Stage): void {
    this.#replies.set(serialNumber, { order, stage });
    for (const oldest of this.#replies.keys()) {
      if (this.#replies.size <= this.#capacity.replies) return;
      this.#replies.delete(oldest);
    }
  }
}
