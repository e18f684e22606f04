import type { BackoffOptions } from '../../util/backoff.ts';
import type { WallClock } from '../../util/clock.ts';
import type { EventObserver } from '../events.ts';
import type { Logger } from '../logger.ts';
import { createOutageLog } from '../outages.ts';
import type { DestinationSettings } from './destination.ts';
import type { RequestSpan, RequestStart, RequestTracer } from './request-tracer.ts';
import type { SpanQueue } from './span-queue.ts';

/** `tracing` of the configuration. */
interface TracingSettings extends DestinationSettings {
  readonly sampleRatio: number;
}

interface TracingOptions extends BackoffOptions, WallClock {
  readonly log: Pick<Logger, 'message'>;
  readonly metrics: Pick<EventObserver, 'spansCounted'>;
  readonly version: string;
  readonly instance: string;
}

/** Milliseconds that the last spans have when tracing is switched off by a reload. */
const switchOffTimeout = 10_000;

const messages = { failed: 'traces are not delivered', recovered: 'traces are delivered again' };

export type Tracing = ReturnType<typeof createTracing>;

/** Records traces of requests while it is configured. Loads OpenTelemetry's SDK only then. */
export function createTracing(options: TracingOptions) {
  const outage = createOutageLog({ ...options, source: 'tracing', messages });
  let current: { readonly queue: SpanQueue; readonly begin: RequestTracer } | undefined;
  /** Those that still send what they have, also after tracing was switched off. */
  const queues = new Set<SpanQueue>();
  const switchOff = (): void => {
    const queue = current?.queue;
    current = undefined;
    void queue?.stop(switchOffTimeout).then(() => queues.delete(queue));
  };
  return {
    /** The span of a request; `undefined` if its trace is not recorded. */
    begin: (start: RequestStart): RequestSpan | undefined => current?.begin(start),
    /** Loads what the configuration needs. @returns applies it to new requests */
    async prepare(settings: TracingSettings | undefined): Promise<() => void> {
      if (settings === undefined) return switchOff;
      const [{ createDestination }, { createRequestTracer }, { SpanQueue }] = await Promise.all([
        import('./destination.ts'),
        import('./request-tracer.ts'),
        import('./span-queue.ts'),
      ]);
      const destination = createDestination(settings);
      return () => {
        const queue = current?.queue ?? new SpanQueue(destination, { ...options, outage });
        queue.useDestination(destination);
        queues.add(queue);
        current = { queue, begin: createRequestTracer(queue, { ...options, ...settings }) };
      };
    },
    /** @param milliseconds to send the last spans */
    async stop(milliseconds: number): Promise<void> {
      current = undefined;
      await Promise.all(Array.from(queues, (queue) => queue.stop(milliseconds)));
    },
  };
}
