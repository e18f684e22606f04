import { ProxyError } from '../../errors.ts';
import { SlotList } from '../../util/slot-list.ts';
import type { UpstreamRequest } from './upstream-request.ts';

/** All that is on its way to any gateway, so that a process that has to end can still say what became of it. */
export class InflightRequests {
  readonly #requests = new SlotList<UpstreamRequest>();
  #aborted = false;

  /** @throws Refusal `shutting-down` */
  assertAccepting(): void {
    if (this.#aborted) throw new ProxyError('shutting-down', 'This instance has stopped.');
  }

  track(crossing: UpstreamRequest): void {
    const leave = this.#requests.add(crossing);
    crossing.response.then(leave, leave);
  }

  /** Waits for no reply any longer, and lets nothing set out any more. */
  abortAll(): void {
    this.#aborted = true;
    for (const crossing of this.#requests.values()) crossing.abort();
  }
}
