import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { bucketCount, bucketOf, percentile } from '../../../../src/observability/status/latency-buckets.ts';
import { RequestWindow } from '../../../../src/observability/status/request-window.ts';

interface Event {
  /** Milliseconds since the event before it. */
  readonly after: number;
  /** Of a request; otherwise it is a response of the gateway. */
  readonly seconds: number | undefined;
  readonly rejected: boolean;
}

const event: fc.Arbitrary<Event> = fc.record({
  // Mostly close together, sometimes long after, and often a minute after: in the slot that is used again.
  after: fc.oneof(
    { weight: 6, arbitrary: fc.nat(900) },
    { weight: 1, arbitrary: fc.nat(90_000) },
    { weight: 3, arbitrary: fc.constantFrom(59_000, 60_000, 61_000) },
  ),
  seconds: fc.option(fc.double({ min: 0.001, max: 60, noNaN: true }), { nil: undefined }),
  rejected: fc.boolean(),
});

/** The same from a list of all events. */
function naiveSummary(events: readonly (Event & { at: number })[], startedAt: number, now: number) {
  const from = Math.floor(now / 1000) - 59;
  const recent = events.filter(({ at }) => Math.floor(at / 1000) >= from);
  const durations = recent.flatMap(({ seconds }) => seconds ?? []);
  const responses = recent.filter(({ seconds }) => seconds === undefined);
  const counts = new Uint32Array(bucketCount);
  for (const seconds of durations) counts[bucketOf(seconds)] = (counts[bucketOf(seconds)] ?? 0) + 1;
  const covered = Math.max(1, Math.min(now / 1000 - from, (now - startedAt) / 1000));
  return {
    requestsPerSecond: durations.length / covered,
    rejectedShare:
      responses.length === 0
        ? undefined
        : responses.filter(({ rejected }) => rejected).length / responses.length,
    latency:
      durations.length === 0 ? undefined : { p50: percentile(counts, 0.5), p99: percentile(counts, 0.99) },
  };
}

describe('the window', () => {
  it('has what a list of all events has of the last minute', () => {
    fc.assert(
      fc.property(fc.nat(10_000_000), fc.array(event, { maxLength: 200 }), (startedAt, events) => {
        const window = new RequestWindow(startedAt);
        let now = startedAt;
        const seen: (Event & { at: number })[] = [];
        for (const one of events) {
          now += one.after;
          seen.push({ ...one, at: now });
          if (one.seconds === undefined) window.recordResponse(now, one.rejected);
          else window.recordRequest(now, one.seconds);
          expect(window.summary(now)).toEqual(naiveSummary(seen, startedAt, now));
        }
      }),
    );
  });

  it('is empty a minute after the last event', () => {
    const window = new RequestWindow(0);
    window.recordRequest(500, 0.1);
    window.recordResponse(500, true);
    expect(window.summary(59_999)).toMatchObject({ rejectedShare: 1 });
    expect(window.summary(60_000)).toEqual({
      requestsPerSecond: 0,
      rejectedShare: undefined,
      latency: undefined,
    });
  });

  it('divides by the time since the start during the first minute, but not by less than a second', () => {
    const window = new RequestWindow(5_000);
    for (let count = 0; count < 10; count += 1) window.recordRequest(5_100, 0.1);
    expect(window.summary(5_200).requestsPerSecond).toBe(10);
    expect(window.summary(10_000).requestsPerSecond).toBe(2);
  });
});
