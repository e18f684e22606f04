import { describe, expect, it } from '@jest/globals';
import { faultNames } from '../faults/fault-table.ts';
import { callerKinds } from '../faults/plan.ts';
import { report } from '../faults/report.ts';
import { runFaults } from '../faults/run.ts';

/** The short form of `npm run faults`: the same code, one seed. */
describe('under faults, hang-ups and signals', () => {
  it('every promise is kept', async () => {
    const run = await runFaults({
      requests: 1_500,
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

    // With its details, by which a failure can be seen again.
    expect(run.violations.length === 0 ? 'kept' : report(run)).toBe('kept');

    // And something has happened that could have broken them.
    const { requests } = run.ledger;
    const seen = new Set(requests.flatMap(({ sightings }) => sightings.map(({ fault }) => fault)));
    expect(seen.size).toBeGreaterThan(faultNames.length / 2);
    expect(new Set(requests.map(({ plan }) => plan.caller)).size).toBe(callerKinds.length);
    const outcomes = new Set(requests.map(({ response }) => response?.outcome));
    expect([...outcomes]).toEqual(expect.arrayContaining(['answered', 'not-sent', 'unknown']));
    expect([...run.actions.keys()]).toEqual(expect.arrayContaining(['SIGHUP', 'SIGTERM']));
  }, 120_000);
});
