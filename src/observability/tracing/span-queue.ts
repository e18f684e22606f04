import { setTimeout as wait } from 'node:timers/promises';
import { ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer';
import type { ReadableSpan, SpanProcessor } from '@opentelemetry/sdk-trace';
import { Backoff, type BackoffOptions } from '../../util/backoff.ts';
import { setTimer } from '../../util/clock.ts';
import type { EventObserver } from '../events.ts';
import type { ReportUp } from '../outages.ts';
import type { Destination } from './destination.ts';

/** Spans that wait, at most: about 4 MB. */
const maxQueued = 2_048;
/** Spans in one export. Encoding them holds the event loop for about 1 ms. */
const batchSize = 256;
/** Milliseconds that a span waits at most while its batch is not full. */
const delay = 5_000;
/** How often a batch is sent before it is dropped. */
const maxAttempts = 3;
const backoff = { initial: 1_000, max: 30_000 };

interface SpanQueueOptions extends BackoffOptions {
  readonly metrics: Pick<EventObserver, 'spansCounted'>;
  readonly outage: ReportUp;
}

/**
 * Sends finished spans in batches, one batch at a time, and drops those that it has no room for. No request waits for it.
 */
export class SpanQueue implements SpanProcessor {
  readonly #options: SpanQueueOptions;
  readonly #backoff: Backoff;
  /** From then on each batch is sent once, without pauses. */
  readonly #ending = new AbortController();
  /** From then on nothing is sent. */
  readonly #ended = new AbortController();
  #destination: Destination;
  #waiting: ReadableSpan[] = [];
  #exporting: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;

  constructor(destination: Destination, options: SpanQueueOptions) {
    this.#destination = destination;
    this.#options = options;
    this.#backoff = new Backoff(backoff, options.random);
  }

  /** From the next attempt on. */
  useDestination(destination: Destination): void {
    this.#destination = destination;
    this.#backoff.reset();
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    if (this.#waiting.length >= maxQueued || this.#ended.signal.aborted) {
      this.#options.metrics.spansCounted('dropped', 1);
      return;
    }
    this.#waiting.push(span);
    this.#schedule();
  }

  async forceFlush(): Promise<void> {
    this.#export();
    await this.#exporting;
  }

  shutdown(): Promise<void> {
    return this.stop(0);
  }

  /**
   * Sends what waits. Never rejects.
   *
   * @param milliseconds for that; what is left then is dropped
   */
  async stop(milliseconds: number): Promise<void> {
    this.#ending.abort();
    const cancel = setTimer(() => this.#ended.abort(), milliseconds);
    await this.#exporting;
    while (this.#waiting.length > 0 && !this.#ended.signal.aborted) await this.forceFlush();
    cancel();
    this.#ended.abort();
    this.#cancelTimer?.();
    const { length } = this.#waiting;
    if (length > 0) this.#options.metrics.spansCounted('dropped', length);
    this.#waiting = [];
  }

  /** A full batch is due at once, any other after a while; none during a pause after a failure. */
  #schedule(): void {
    if (this.#waiting.length === 0 || this.#exporting !== undefined) return;
    const isFull = this.#waiting.length >= batchSize;
    const pause = this.#backoff.remaining(this.#options.monotonic());
    if (isFull && pause === 0) this.#export();
    else this.#cancelTimer ??= setTimer(() => this.#export(), Math.max(pause, isFull ? 0 : delay));
  }

  #export(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#exporting ??= this.#send(this.#waiting.splice(0, batchSize)).finally(() => {
      this.#exporting = undefined;
      this.#schedule();
    });
  }

  async #send(batch: ReadableSpan[]): Promise<void> {
    const { metrics, monotonic, outage } = this.#options;
    const body = ProtobufTraceSerializer.serializeRequest(batch);
    if (body === undefined) throw new TypeError('the spans cannot be encoded');
    for (let attempt = 1; ; attempt += 1) {
      const response = await this.#destination(Buffer.from(body), this.#ended.signal);
      if ('rejected' in response) {
        const rejected = Math.min(response.rejected, batch.length);
        metrics.spansCounted('exported', batch.length - rejected);
        if (rejected > 0) metrics.spansCounted('rejected', rejected);
        this.#backoff.reset();
        outage(true);
        return;
      }
      outage(false, response.cause);
      this.#backoff.recordFailure(monotonic(), { atLeast: response.retryAfter });
      if (!response.retryable || attempt === maxAttempts || this.#ending.signal.aborted) {
        metrics.spansCounted('dropped', batch.length);
        return;
      }
      await pause(this.#backoff.remaining(monotonic()), this.#ending.signal);
    }
  }
}

async function pause(milliseconds: number, ended: AbortSignal): Promise<void> {
  await wait(milliseconds, undefined, { signal: ended, ref: false }).catch(() => {});
}
