import { expect, it } from '@jest/globals';
import { faultNames } from '../faults/faults.ts';
import { callerKinds } from '../faults/plan.ts';
import { report } from '../faults/report.ts';
import { runFaults } from '../faults/run.ts';

/** The short form of `npm run faults`: the same code, one seed. */
it('every promise is kept under faults, disconnects and signals', async () => {
  const ran = await runFaults({ requests: 1_500, seed: 7 });
  const { violations, requests, processes } = ran;

  // With the details that reproduce a failure.
  expect(violations.length === 0 ? 'kept' : report(ran)).toBe('kept');

  // The run contained events that could have broken a promise.
  const seen = new Set(requests.flatMap(({ upstream }) => upstream.map(({ fault }) => fault)));
  expect(seen.size).toBeGreaterThan(faultNames.length / 2);
  expect(new Set(requests.map(({ plan }) => plan.caller)).size).toBe(callerKinds.length);
  const outcomes = new Set(requests.map(({ response }) => response?.outcome));
  expect([...outcomes]).toEqual(expect.arrayContaining(['answered', 'not-sent', 'unknown']));
  const signals = processes.flatMap((process) => process.signals.map(({ name }) => name));
  expect(signals).toEqual(expect.arrayContaining(['SIGHUP', 'SIGTERM']));
}, 120_000);
