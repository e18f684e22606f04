import { afterEach, describe, expect, it, jest } from '@jest/globals';
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
  const outages: string[] = [];
  /** Milliseconds that the clock is ahead. */
  const time = { ahead: 0 };
  const clocks = { clock: () => Date.now(), monotonic: () => performance.now() + time.ahead };
  const queue = new SpanQueue(destination, {
    ...clocks,
    // The shortest pauses.
    random: () => 0.999,
    metrics: {
      spansCounted: (result, spans) => {
        counts[result] = (counts[result] ?? 0) + spans;
      },
    },
    outage: (up, cause = '') => void outages.push(up ? 'up' : cause),
  });
  const tracer = createRequestTracer(queue, { ...clocks, sampleRatio: 1, version: '1', instance: 'pod-7' });
  const record = (spans: number): void => {
    for (let recorded = 0; recorded < spans; recorded += 1)
      tracer({ parent: undefined, startedAt: performance.now() })?.end();
  };
  return { queue, counts, exports, record, outages, time };
}

const unavailable = { cause: 'status 503', retryable: true };

describe('the queue of spans', () => {
  afterEach(() => {
    jest.useRealTimers();
  });

  it('sends what does not fill a batch after 5 s, again and again', async () => {
    jest.useFakeTimers();
    const { exports, record } = start();
    for (const sent of [1, 2, 3]) {
      record(1);
      await jest.advanceTimersByTimeAsync(4_999);
      expect(exports).toHaveLength(sent - 1);
      await jest.advanceTimersByTimeAsync(1);
      expect(exports).toHaveLength(sent);
      exports.at(-1)?.({ rejected: 0 });
      await jest.advanceTimersByTimeAsync(0);
    }
  });

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
    const { queue, counts, exports, record, time } = start();
    record(batchSize);
    exports[0]?.({ cause: 'status 429', retryable: false, retryAfter: 60 });
    await until(() => counts['dropped'] === batchSize, 'the batch is dropped');
    record(batchSize);
    time.ahead = 50_000;
    record(1);
    expect(exports).toHaveLength(1);
    time.ahead = 61_000;
    record(1);
    expect(exports).toHaveLength(2);
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

  it('has room for 2,048 spans besides those that are being sent, and drops further ones', async () => {
    const { queue, counts, record } = start();
    record(batchSize + 2_048);
    expect(counts['dropped']).toBe(0);
    record(1);
    expect(counts['dropped']).toBe(1);
    await queue.stop(0);
  });

  it('reports each outage and its end, after which a full batch waits no more', async () => {
    const { queue, counts, exports, record, outages } = start();
    record(batchSize);
    exports[0]?.({ cause: 'status 400', retryable: true });
    await until(() => exports.length === 2, 'it is sent again');
    // A receiver may say anything.
    exports[1]?.({ rejected: 1_000 });
    await until(() => counts['rejected'] === batchSize, 'its spans are counted');
    expect([counts['exported'], outages]).toEqual([0, ['status 400', 'up']]);
    record(batchSize);
    expect(exports).toHaveLength(3);
    await queue.stop(0);
  });

  it('sends each batch once while it stops', async () => {
    const { queue, counts, exports, record } = start();
    record(batchSize + 1);
    const stopped = queue.stop(10_000);
    exports[0]?.(unavailable);
    await until(() => exports.length === 2, 'the next batch is sent');
    exports[1]?.(unavailable);
    await stopped;
    expect([counts['dropped'], exports.length]).toEqual([batchSize + 1, 2]);
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
