import type { RequestContext } from '../../request-context.ts';
import type { BackoffOptions } from '../../util/backoff.ts';
import type { WallClock } from '../../util/clock.ts';
import type { Span } from '../../util/trace.ts';
import type { Logger } from '../logger.ts';
import type { MetricsObserver } from '../metrics-observer.ts';
import { createOutageLog, type OutageLog } from '../outage-log.ts';
import type { DestinationSettings } from './destination.ts';
import type { RequestTracer } from './request-tracer.ts';
import type { SpanQueue } from './span-queue.ts';

/** How the delivery of spans ended. `dropped`: not delivered, or there was no room for them. `rejected`: by the receiver. */
export type SpanResult = (typeof spanResults)[number];
export const spanResults = ['exported', 'dropped', 'rejected'] as const;

/** `tracing` of the configuration. */
interface TracingSettings extends DestinationSettings {
  readonly sampleRatio: number;
}

export interface RequestStart {
  /** From the `traceparent` of a known caller. */
  readonly parent: ParentSpan | undefined;
  /** When its headers had been received; monotonic, milliseconds. */
  readonly startedAt: number;
}

/** The span of the client that sent a request (W3C Trace Context). */
export interface ParentSpan {
  /** 32 lowercase hex digits. */
  readonly traceId: string;
  /** 16 lowercase hex digits; absent if it may not be shown. */
  readonly spanId?: string | undefined;
}

/** The span of a request that is recorded. */
export interface RequestSpan extends Span {
  readonly traceId: string;
  /** @param route with the placeholders of its path, not the values */
  routed(route: string): void;
  /** Ends it. */
  finish(context: RequestContext): void;
}

interface TracingOptions extends BackoffOptions, WallClock {
  readonly log: Pick<Logger, 'message'>;
  readonly metrics: Pick<MetricsObserver, 'spansCounted'>;
  readonly version: string;
  readonly instance: string;
}

/** Milliseconds that the last spans have when tracing is switched off by a reload. */
const switchOffTimeout = 10_000;

const messages = { failed: 'traces are not delivered', recovered: 'traces are delivered again' };

/** Records traces of requests while it is configured. Loads OpenTelemetry's SDK only then. */
export class Tracing {
  readonly #options: TracingOptions;
  readonly #outage: OutageLog;
  #queue: SpanQueue | undefined;
  /** Those that still send what they have, also after tracing was switched off. */
  readonly #queues = new Set<SpanQueue>();
  #begin: RequestTracer | undefined;

  constructor(options: TracingOptions) {
    this.#options = options;
    this.#outage = createOutageLog({ ...options, source: 'tracing', messages });
  }

  /** The span of a request; `undefined` if its trace is not recorded. */
  begin(start: RequestStart): RequestSpan | undefined {
    return this.#begin?.(start);
  }

  /** Loads what the configuration needs. @returns applies it to new requests */
  async prepare(settings: TracingSettings | undefined): Promise<() => void> {
    if (settings === undefined) return () => this.#switchOff();
    const [{ createDestination }, { createRequestTracer }, { SpanQueue }] = await Promise.all([
      import('./destination.ts'),
      import('./request-tracer.ts'),
      import('./span-queue.ts'),
    ]);
    const destination = createDestination(settings);
    return () => {
      const queue = this.#queue ?? new SpanQueue(destination, { ...this.#options, outage: this.#outage });
      queue.useDestination(destination);
      this.#queue = queue;
      this.#queues.add(queue);
      this.#begin = createRequestTracer(queue, { ...this.#options, ...settings });
    };
  }

  /** @param milliseconds to send the last spans */
  async stop(milliseconds: number): Promise<void> {
    this.#begin = undefined;
    await Promise.all(Array.from(this.#queues, (queue) => queue.stop(milliseconds)));
  }

  #switchOff(): void {
    const queue = this.#queue;
    this.#begin = undefined;
    this.#queue = undefined;
    void queue?.stop(switchOffTimeout).then(() => this.#queues.delete(queue));
  }
}
