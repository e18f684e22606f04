import { describe, expect, it } from '@jest/globals';
import type { Destination } from '../../../../src/observability/tracing/destination.ts';
import { createRequestTracer } from '../../../../src/observability/tracing/request-tracer.ts';
import { SpanQueue } from '../../../../src/observability/tracing/span-queue.ts';
import { until } from '../../../support/until.ts';

const batchSize = 256;

type Delivery = Awaited<ReturnType<Destination>>;

/** A queue, what it counted, and a receiver whose responses the test gives. */
function start() {
  const counts: Record<string, number> = { exported: 0, dropped: 0, rejected: 0 };
  const exports: ((delivery: Delivery) => void)[] = [];
  const destination: Destination = (_, stopped) =>
    new Promise((resolve) => {
      exports.push(resolve);
      stopped.addEventListener('abort', () => resolve({ cause: 'stopped', retryable: false }));
    });
  const clocks = { clock: () => Date.now(), monotonic: () => performance.now() };
  const queue = new SpanQueue(destination, {
    ...clocks,
    // The shortest pauses.
    random: () => 0.999,
    metrics: {
      spansCounted: (result, spans) => {
        counts[result] = (counts[result] ?? 0) + spans;
      },
    },
    outage() {},
  });
  const tracer = createRequestTracer(queue, { ...clocks, sampleRatio: 1, version: '1', instance: 'pod-7' });
  const record = (spans: number): void => {
    for (let recorded = 0; recorded < spans; recorded += 1)
      tracer({ parent: undefined, startedAt: performance.now() })?.end();
  };
  return { queue, counts, exports, record };
}

const unavailable = { cause: 'status 503', retryable: true };

describe('the queue of spans', () => {
  it('sends what came during an export, also if nothing comes after it', async () => {
    const { counts, exports, record } = start();
    record(2 * batchSize);
    expect(exports).toHaveLength(1);
    exports[0]?.({ rejected: 0 });
    await until(() => exports.length === 2, 'the second batch is sent');
    exports[1]?.({ rejected: 0 });
    await until(() => counts['exported'] === 2 * batchSize, 'both are counted');
  });

  it('drops a batch after three attempts', async () => {
    const { counts, exports, record } = start();
    record(batchSize);
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      await until(() => exports.length === attempt, `attempt ${attempt}`);
      expect(counts['dropped']).toBe(0);
      exports.at(-1)?.(unavailable);
    }
    await until(() => counts['dropped'] === batchSize, 'the batch is counted');
    expect(exports).toHaveLength(3);
  });

  it('sends nothing in the pause that the receiver wants, though a batch is full', async () => {
    const { queue, counts, exports, record } = start();
    record(batchSize);
    exports[0]?.({ cause: 'status 429', retryable: false, retryAfter: 60 });
    await until(() => counts['dropped'] === batchSize, 'the batch is dropped');
    record(batchSize);
    expect(exports).toHaveLength(1);
    await queue.stop(0);
  });

  it('does not make another destination wait because the one before did not want more', async () => {
    const { queue, counts, exports, record } = start();
    record(batchSize);
    exports[0]?.({ cause: 'status 400', retryable: false, retryAfter: 60 });
    await until(() => counts['dropped'] === batchSize, 'the batch is dropped');
    queue.useDestination(async () => ({ rejected: 0 }));
    record(batchSize);
    await until(() => counts['exported'] === batchSize, 'the next one is sent');
  });

  it('counts what could not be sent in the time of the stop', async () => {
    const { queue, counts, exports, record } = start();
    record(batchSize + 3);
    await queue.stop(20);
    expect(exports).toHaveLength(1);
    expect(counts).toEqual({ exported: 0, dropped: batchSize + 3, rejected: 0 });
    record(1);
    expect(counts['dropped']).toBe(batchSize + 4);
  });
});
