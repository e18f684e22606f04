import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import type { FailureCause } from '../../../../src/observability/status/facts.ts';
import { RequestWindow, type Verdict } from '../../../../src/observability/status/request-window.ts';

interface Event {
  /** Milliseconds since the event before it. */
  readonly after: number;
  /** Of a request. */
  readonly seconds: number;
  /** Of a failed request. */
  readonly cause: FailureCause;
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
  seconds: fc.double({ min: 0.001, max: 60, noNaN: true }),
  cause: fc.constantFrom('internal', 'gateway-timeout'),
  login: fc.constantFrom('acme', 'acme', 'acme', 'beta', null),
  verdict: fc.constantFrom('succeeded', 'failed', 'rejected', 'neither'),
});

/** The smallest of the durations that at least this share of them does not exceed. */
function percentile(durations: readonly number[], share: number): number {
  return durations.toSorted((a, b) => a - b)[Math.ceil(share * durations.length) - 1] ?? Number.NaN;
}

/** Not less, and at most a tenth more. */
const about = (seconds: number) => ({
  asymmetricMatch: (found: number) => found >= seconds && found <= seconds * 1.1 + 0.0001,
});

/** The same from a list of all events. */
function naiveSummary(events: readonly (Event & { at: number })[], startedAt: number, now: number) {
  const from = Math.floor(now / 1000) - 59;
  const requests = events.filter(({ at }) => Math.floor(at / 1000) >= from);
  // What failed by a fault of its caller was not sent, or not for long.
  const durations = requests.filter(({ verdict }) => verdict !== 'neither').map(({ seconds }) => seconds);
  const responses = requests.filter(({ verdict }) => verdict === 'succeeded' || verdict === 'rejected');
  const covered = Math.max(1, Math.min(now / 1000 - from, (now - startedAt) / 1000));
  const failed = requests.filter(({ verdict }) => verdict === 'failed');
  const failures = [...Map.groupBy(failed, ({ cause }) => cause)].map(([cause, list]) => {
    const lastAt = list.at(-1)?.at;
    const all = events.filter((one) => one.verdict === 'failed' && one.cause === cause);
    const first = all.findLast(({ at }, index) => at - (all[index - 1]?.at ?? -60_000) >= 60_000);
    const [login, ...others] = new Set(list.map((one) => one.login));
    const same = { caller: 'billing', operation: 'transfer', login: others.length === 0 ? login : null };
    const one = { cause, detail: String(lastAt), ...same, since: first?.at, lastAt };
    return { ...one, count: list.length, share: list.length / requests.length };
  });
  const latest = requests.filter(
    ({ at, verdict }) => Math.floor(at / 1000) > Math.floor(now / 1000) - 4 && verdict !== 'neither',
  );
  return {
    allFail: latest.length > 0 && latest.every(({ verdict }) => verdict !== 'succeeded'),
    failedShare: requests.length === 0 ? null : failed.length / requests.length,
    failures,
    requestsPerSecond: requests.length / covered,
    rejectedShare:
      responses.length === 0
        ? null
        : responses.filter(({ verdict }) => verdict === 'rejected').length / responses.length,
    latency:
      durations.length === 0
        ? null
        : { p50: about(percentile(durations, 0.5)), p99: about(percentile(durations, 0.99)) },
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
          const { verdict, cause, login } = one;
          const of = { detail: String(now), caller: 'billing', operation: 'transfer', login };
          const failure = verdict === 'failed' ? { cause, ...of } : undefined;
          window.recordRequest(now, one.seconds, verdict, failure);
          expect(window.summary(now)).toEqual(naiveSummary(seen, startedAt, now));
        }
      }),
    );
  });
});
