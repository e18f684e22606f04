import { expect, it } from '@jest/globals';
import { computeReadiness, type ReadinessInputs } from '../../../src/observability/readiness.ts';

const well: ReadinessInputs = {
  draining: false,
  keySourceReady: true,
  keysCached: false,
  logLinesDropped: false,
  logStalled: false,
};

it.each<[string, ReadinessInputs, readonly string[]]>([
  ['whose key source has answered is ready', well, []],
  [
    'with cached keys is ready though the source fails',
    { ...well, keySourceReady: false, keysCached: true },
    [],
  ],
  ['that never had a key is not', { ...well, keySourceReady: false }, ['key-source-never-reached']],
  ['that is draining is not', { ...well, draining: true }, ['draining']],
  [
    'tells all its reasons',
    { ...well, draining: true, keySourceReady: false },
    ['draining', 'key-source-never-reached'],
  ],
])('an instance %s', (_name, vitals, reasons) => {
  expect(computeReadiness(vitals)).toEqual({ ready: reasons.length === 0, reasons, warnings: [] });
});

it('an instance whose log cannot be written is ready, with warnings', () => {
  expect(computeReadiness({ ...well, logLinesDropped: true, logStalled: true })).toEqual({
    ready: true,
    reasons: [],
    warnings: ['log-lines-dropped', 'log-stalled'],
  });
});
