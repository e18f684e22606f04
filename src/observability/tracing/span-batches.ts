import { BatchSpanProcessor, type ReadableSpan, type SpanProcessor } from '@opentelemetry/sdk-trace';
import { endsWithin } from '../../util/promises.ts';
import type { EventObserver } from '../events.ts';
import type { ReportUp } from '../outages.ts';
import type { ExportSpans } from './export-spans.ts';

/** Spans that wait or are being sent, at most: about 4 MB. */
const maxWaiting = 2_048;
/** Spans in one export. Encoding them holds the event loop for about 1 ms. */
const maxExportBatchSize = 256;
/** Milliseconds that a span waits at most while its batch is not full. */
const scheduledDelayMillis = 5_000;
/** Milliseconds. The exporter has its own timeout, which a response that drips does not end. */
const exportTimeout = 15_000;

interface SpanBatchesOptions {
  readonly metrics: Pick<EventObserver, 'spansCounted'>;
  readonly outage: ReportUp;
}

/** OpenTelemetry's batch processor, and what becomes of each span: exported, rejected or dropped. No request waits for it. */
export class SpanBatches implements SpanProcessor {
  /** From the next batch on. */
  exportSpans: ExportSpans;
  readonly #options: SpanBatchesOptions;
  readonly #processor: SpanProcessor;
  #waiting = 0;

  constructor(exportSpans: ExportSpans, options: SpanBatchesOptions) {
    this.exportSpans = exportSpans;
    this.#options = options;
    this.#processor = new BatchSpanProcessor({
      exporter: {
        export: (spans, done) => void this.#export(spans, () => done({ code: 0 })),
        shutdown: async () => {},
      },
      maxQueueSize: maxWaiting,
      maxExportBatchSize,
      scheduledDelayMillis,
    });
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    if (this.#waiting < maxWaiting) {
      this.#waiting += 1;
      this.#processor.onEnd(span);
    } else this.#options.metrics.spansCounted('dropped', 1);
  }

  forceFlush(): Promise<void> {
    return this.#processor.forceFlush();
  }

  shutdown(): Promise<void> {
    return this.stop(0);
  }

  /** Sends what waits. @param milliseconds for that; what is left then is dropped */
  async stop(milliseconds: number): Promise<void> {
    await endsWithin(milliseconds, this.#processor.shutdown());
    if (this.#waiting > 0) this.#options.metrics.spansCounted('dropped', this.#waiting);
  }

  async #export(spans: ReadableSpan[], done: () => void): Promise<void> {
    const { metrics, outage } = this.#options;
    try {
      const exported = this.exportSpans(spans);
      if (!(await endsWithin(exportTimeout, exported))) throw new Error('no complete response in time');
      const rejected = await exported;
      metrics.spansCounted('exported', spans.length - rejected);
      if (rejected > 0) metrics.spansCounted('rejected', rejected);
      outage(true);
    } catch (error) {
      metrics.spansCounted('dropped', spans.length);
      outage(false, error instanceof Error ? error.message : 'unknown error');
    }
    this.#waiting -= spans.length;
    done();
  }
}
