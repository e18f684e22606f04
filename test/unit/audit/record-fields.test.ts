import { expect, it } from '@jest/globals';
import { endFields } from '../../../src/audit/record-fields.ts';
import type { ClientDetails } from '../../../src/request-context.ts';

function recordOf(rejected: ClientDetails): unknown {
  const { outcome, durations } = { outcome: 'not-sent', durations: {} } as const;
  return endFields({ id: 'a', startedAt: 0, attempts: 0, outcome, durations, rejected });
}

it('a rejected request is recorded with the names that it presented, and why they were not accepted', () => {
  const jwt = { jwtProblem: 'jwt-no-caller', jwtSubject: 'stranger' } as const;
  const certificate = { certificateSubject: 'CN=stranger', certificateProblem: 'CERT_HAS_EXPIRED' };
  expect(recordOf({ credential: 'jwt', ...jwt })).toMatchObject({ presented: 'jwt', ...jwt });
  expect(recordOf({ credential: 'certificate', ...certificate })).toMatchObject(certificate);
});
