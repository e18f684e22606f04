import { expect, it } from '@jest/globals';
import { faultNames } from '../faults/faults.ts';
import { callerKinds } from '../faults/plan.ts';
import { report } from '../faults/report.ts';
import { runFaults } from '../faults/run.ts';

/** The short form of `npm run faults`: the same code, one seed. */
it.each([
  ['at a faulty gateway', {}],
  ['in a rollout', { rolling: 2 }],
] as const)(
  'every promise is kept under faults, disconnects and signals: %s',
  async (_, options) => {
    const { violations, requests, actions, processes } = await runFaults({
      requests: 1_500,
      seed: 7,
      ...options,
    });

    // With the details that reproduce a failure.
    const text = report({ violations, requests, actions, processes });
    expect(violations.length === 0 ? 'kept' : text).toBe('kept');

    // The run contained events that could have broken a promise.
    if ('rolling' in options) return expect(processes).toHaveLength(4);
    const seen = new Set(requests.flatMap(({ upstream }) => upstream.map(({ fault }) => fault)));
    expect(seen.size).toBeGreaterThan(faultNames.length / 2);
    expect(new Set(requests.map(({ plan }) => plan.caller)).size).toBe(callerKinds.length);
    const outcomes = new Set(requests.map(({ response }) => response?.outcome));
    expect([...outcomes]).toEqual(expect.arrayContaining(['answered', 'not-sent', 'unknown']));
    expect([...actions.keys()]).toEqual(expect.arrayContaining(['SIGHUP', 'SIGTERM', 'hostile caller']));
  },
  120_000,
);
