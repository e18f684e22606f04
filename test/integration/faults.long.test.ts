import { describe, expect, it } from '@jest/globals';
import { faultNames } from '../faults/fault-table.ts';
import { callerKinds } from '../faults/plan.ts';
import { report } from '../faults/report.ts';
import { runFaults } from '../faults/run.ts';

/** The short form of `npm run faults`: the same code, one seed. */
describe('under faults, disconnects and signals', () => {
  it.each([false, true])(
    'every promise is kept; behind egress proxies: %s',
    async (egress) => {
      const run = await runFaults({
        requests: 1_500,
        egress,
        seed: 7,
        concurrency: 64,
        only: undefined,
        caller: undefined,
        signals: true,
        hostile: true,
        brokenLogs: true,
        shutdownDelay: 300,
        // Other tests run beside this one.
        slack: 15_000,
        surplusWindow: 250,
        progress: () => {},
      });

      // With the details that reproduce a failure.
      expect(run.violations.length === 0 ? 'kept' : report(run)).toBe('kept');

      // The run contained events that could have broken a promise.
      const { requests } = run.ledger;
      const seen = new Set(
        requests.flatMap(({ upstreamRequests }) => upstreamRequests.map(({ fault }) => fault)),
      );
      expect(seen.size).toBeGreaterThan(faultNames.length / 2);
      expect(new Set(requests.map(({ plan }) => plan.caller)).size).toBe(callerKinds.length);
      const outcomes = new Set(requests.map(({ response }) => response?.outcome));
      expect([...outcomes]).toEqual(expect.arrayContaining(['answered', 'not-sent', 'unknown']));
      expect([...run.actions.keys()]).toEqual(expect.arrayContaining(['SIGHUP', 'SIGTERM']));
    },
    120_000,
  );
});
