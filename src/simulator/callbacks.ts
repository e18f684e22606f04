import type { Secret } from '../secret.ts';
import type { Order } from './ledger.ts';
import type { Stage } from './scenario.ts';
import { controlOf } from './signature.ts';

/** docs/gateway-interface.md section 12. The gateway takes 14 days for it. */
const maxTries = 30;
const maxPauseSeconds = 60;
const maxWaiting = 1000;
const loopback = ['127.0.0.1', '[::1]', 'localhost'];

/** Where a callback may go: `http` on loopback. */
export function callbackUrlOf(text: string): URL | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url?.protocol === 'http:' && loopback.includes(url.hostname) ? url : undefined;
}

/** Callbacks that are not delivered yet; beyond a bound they are dropped. They do not keep the process alive. */
export class Callbacks {
  readonly #waiting = new Set<NodeJS.Timeout>();

  /** Sends a GET after a time, again until the response is 200. Other URLs are ignored, as the journal says. */
  send(to: string, parameters: Stage, afterSeconds: number): void {
    const url = callbackUrlOf(to);
    if (url === undefined) return;
    for (const [name, value] of Object.entries(parameters))
      if (value !== undefined) url.searchParams.append(name, value);
    this.#schedule(url, afterSeconds, maxTries);
  }

  clear(): void {
    for (const timer of this.#waiting) clearTimeout(timer);
    this.#waiting.clear();
  }

  #schedule(url: URL, seconds: number, tries: number): void {
    if (tries === 0 || this.#waiting.size >= maxWaiting) return;
    const timer = setTimeout(() => void this.#deliver(url, timer, tries), seconds * 1000).unref();
    this.#waiting.add(timer);
  }

  async #deliver(url: URL, timer: NodeJS.Timeout, tries: number): Promise<void> {
    const isDelivered = await isAccepted(url);
    // Not after a reset in the meantime.
    if (this.#waiting.delete(timer) && !isDelivered)
      this.#schedule(url, Math.min(2 ** (maxTries - tries), maxPauseSeconds), tries - 1);
  }
}

/** Whether the merchant responds with 200. */
async function isAccepted(url: URL): Promise<boolean> {
  try {
    const response = await fetch(url, { redirect: 'manual', signal: AbortSignal.timeout(10_000) });
    await response.body?.cancel();
    return response.status === 200;
  } catch {
    // Nobody listens, or not yet: it is sent again.
    return false;
  }
}

/** The parameters of a callback. Only those that `control` covers are published. */
export function callbackOf({ clientOrderId, orderId }: Order, stage: Stage, controlKey: Secret): Stage {
  const { status = '', amount, currency } = stage;
  return {
    status,
    orderid: orderId,
    client_orderid: clientOrderId,
    merchant_order: clientOrderId,
    type: stage['transaction-type'],
    amount,
    'reversal-amount': stage['reversal-amount'],
    currency,
    error_message: stage['error-message'],
    error_code: stage['error-code'],
    control: controlOf(`${status}${orderId}${clientOrderId}`, controlKey),
  };
}
