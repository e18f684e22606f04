import { expect, it } from '@jest/globals';
import { computeReadiness, type ReadinessInputs } from '../../../src/observability/readiness.ts';

const healthy: ReadinessInputs = {
  draining: false,
  keySourceReady: true,
  keysCached: false,
  jwtKeysAvailable: true,
  auditUnavailable: false,
  logLinesDropped: false,
  logStalled: false,
};

it.each<[string, ReadinessInputs, readonly string[]]>([
  ['whose key source has responded is ready', healthy, []],
  [
    'with cached keys is ready though the source fails',
    { ...healthy, keySourceReady: false, keysCached: true },
    [],
  ],
  ['that never got a key is not', { ...healthy, keySourceReady: false }, ['key-source-never-reached']],
  ['that is draining is not', { ...healthy, draining: true }, ['draining']],
  [
    'that cannot write the audit records that it needs is not',
    { ...healthy, auditUnavailable: true },
    ['audit-unavailable'],
  ],
  [
    'has all reasons',
    { ...healthy, draining: true, keySourceReady: false, auditUnavailable: true },
    ['draining', 'key-source-never-reached', 'audit-unavailable'],
  ],
])('an instance %s', (_name, inputs, reasons) => {
  expect(computeReadiness(inputs)).toEqual({ ready: reasons.length === 0, reasons, warnings: [] });
});

it('an instance whose log cannot be written is ready, with warnings', () => {
  expect(computeReadiness({ ...healthy, logLinesDropped: true, logStalled: true })).toEqual({
    ready: true,
    reasons: [],
    warnings: ['log-lines-dropped', 'log-stalled'],
  });
});
