import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import type { FailureCause } from '../../../../src/observability/status/facts.ts';
import {
  bucketCount,
  bucketOf,
  percentile,
  RequestWindow,
  type Verdict,
} from '../../../../src/observability/status/request-window.ts';

interface Event {
  /** Milliseconds since the event before it. */
  readonly after: number;
  /** Of a request; otherwise it is a response of the gateway. */
  readonly seconds: number | undefined;
  readonly rejected: boolean;
  /** Of a request that failed. */
  readonly cause: FailureCause | undefined;
  readonly login: string | null;
  readonly verdict: Verdict;
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
  cause: fc.option(fc.constantFrom('internal', 'gateway-timeout'), { nil: undefined }),
  login: fc.constantFrom('acme', 'acme', 'acme', 'beta', null),
  verdict: fc.constantFrom('succeeded', 'failed', 'neither'),
});

const failed = <E extends Event>(events: readonly E[], cause: FailureCause): E[] =>
  events.filter((one) => one.seconds !== undefined && one.cause === cause);

/** The same from a list of all events. */
function naiveSummary(events: readonly (Event & { at: number })[], startedAt: number, now: number) {
  const from = Math.floor(now / 1000) - 59;
  const recent = events.filter(({ at }) => Math.floor(at / 1000) >= from);
  const durations = recent.flatMap(({ seconds }) => seconds ?? []);
  const responses = recent.filter(({ seconds }) => seconds === undefined);
  const counts = new Uint32Array(bucketCount);
  for (const seconds of durations) counts[bucketOf(seconds)] = (counts[bucketOf(seconds)] ?? 0) + 1;
  const covered = Math.max(1, Math.min(now / 1000 - from, (now - startedAt) / 1000));
  const requests = durations.length;
  // In the order in which the causes were first seen.
  const causes = new Set(events.flatMap((one) => (one.seconds === undefined ? [] : (one.cause ?? []))));
  const failures = [...causes].flatMap((cause) => {
    const count = failed(recent, cause).length;
    const lastAt = failed(events, cause).at(-1)?.at;
    const [login = null, ...others] = new Set(failed(recent, cause).map((one) => one.login));
    const one = { cause, detail: String(lastAt), login: others.length === 0 ? login : null };
    return count === 0 ? [] : [{ ...one, lastAt, count, share: count / requests }];
  });
  const failedCount = failures.reduce((sum, { count }) => sum + count, 0);
  const latest = recent.filter(
    ({ at, seconds, verdict }) =>
      Math.floor(at / 1000) > Math.floor(now / 1000) - 4 && seconds !== undefined && verdict !== 'neither',
  );
  return {
    allFail: latest.length > 0 && latest.every(({ verdict }) => verdict === 'failed'),
    failedShare: requests === 0 ? null : failedCount / requests,
    failures,
    requestsPerSecond: requests / covered,
    rejectedShare:
      responses.length === 0 ? null : responses.filter(({ rejected }) => rejected).length / responses.length,
    latency: durations.length === 0 ? null : { p50: percentile(counts, 0.5), p99: percentile(counts, 0.99) },
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
          else window.recordRequest(now, one.seconds, one.verdict);
          if (one.seconds !== undefined && one.cause !== undefined) {
            window.recordFailure(now, one.cause, String(now), one.login);
          }
          expect(window.summary(now)).toEqual(naiveSummary(seen, startedAt, now));
        }
      }),
    );
  });

  it('is empty a minute after the last event', () => {
    const window = new RequestWindow(0);
    window.recordRequest(500, 0.1, 'failed');
    window.recordResponse(500, true);
    window.recordFailure(500, 'internal', null, null);
    expect(window.summary(59_999)).toMatchObject({ rejectedShare: 1, failedShare: 1 });
    expect(window.summary(60_000)).toEqual({
      requestsPerSecond: 0,
      rejectedShare: null,
      failedShare: null,
      allFail: false,
      failures: [],
      latency: null,
    });
  });

  it('divides by the time since the start during the first minute, but not by less than a second', () => {
    const window = new RequestWindow(5_000);
    for (let count = 0; count < 10; count += 1) window.recordRequest(5_100, 0.1, 'succeeded');
    expect(window.summary(5_200).requestsPerSecond).toBe(10);
    expect(window.summary(10_000).requestsPerSecond).toBe(2);
  });
});
