import type { MonotonicClock, WallClock } from '../../util/clock.ts';
import type { EventObserver } from '../events.ts';
import type { Logger } from '../logger.ts';
import { createOutageLog } from '../outages.ts';
import type { ReceiverSettings } from './export-spans.ts';
import type { RequestSpan, RequestStart, RequestTracer } from './request-tracer.ts';
import type { SpanBatches } from './span-batches.ts';

/** `tracing` of the configuration. */
interface TracingSettings extends ReceiverSettings {
  readonly sampleRatio: number;
}

interface TracingOptions extends MonotonicClock, WallClock {
  readonly log: Pick<Logger, 'message'>;
  readonly metrics: Pick<EventObserver, 'spansCounted'>;
  readonly version: string;
  readonly instance: string;
}

const messages = { failed: 'traces are not delivered', recovered: 'traces are delivered again' };

export type Tracing = ReturnType<typeof createTracing>;

/** Records traces of requests while it is configured. Loads OpenTelemetry's SDK only then. */
export function createTracing(options: TracingOptions) {
  const outage = createOutageLog({ ...options, source: 'tracing', messages });
  let begin: RequestTracer | undefined;
  /** Once tracing was configured; sends what it has also after it was switched off. */
  let batches: SpanBatches | undefined;
  return {
    /** The span of a request; `undefined` if its trace is not recorded. */
    begin: (start: RequestStart): RequestSpan | undefined => begin?.(start),
    /** Loads what the configuration needs. @returns applies it to new requests */
    async prepare(settings: TracingSettings | undefined): Promise<() => void> {
      if (settings === undefined) {
        return () => {
          begin = undefined;
        };
      }
      const [{ createExportSpans }, { createRequestTracer }, { SpanBatches: Batches }] = await Promise.all([
        import('./export-spans.ts'),
        import('./request-tracer.ts'),
        import('./span-batches.ts'),
      ]);
      const exportSpans = createExportSpans(settings);
      return () => {
        batches ??= new Batches(exportSpans, { ...options, outage });
        batches.exportSpans = exportSpans;
        begin = createRequestTracer(batches, { ...options, ...settings });
      };
    },
    /** @param milliseconds to send the last spans */
    async stop(milliseconds: number): Promise<void> {
      begin = undefined;
      await batches?.stop(milliseconds);
    },
  };
}
