import { expect, it } from '@jest/globals';
import { endFields } from '../../../src/audit/record-fields.ts';
import { LoginRedactor, redactedLogin } from '../../../src/observability/login-redactor.ts';
import type { ClientDetails, RequestContext } from '../../../src/request-context.ts';

const redactor = new LoginRedactor([]);

function recordOf(rejected: ClientDetails, context: Partial<RequestContext> = {}): unknown {
  const { outcome, durations } = { outcome: 'not-sent', durations: {} } as const;
  const fields = endFields(
    { id: 'a', startedAt: 0, attempts: 0, outcome, durations, rejected, ...context },
    0,
    redactor,
  );
  return JSON.parse(`{${fields}}`);
}

it('a rejected request is recorded with the names that it presented, and why they were not accepted', () => {
  const jwt = { jwtProblem: 'jwt-no-caller', jwtSubject: 'stranger' } as const;
  const certificate = { certificateSubject: 'CN=stranger', certificateProblem: 'CERT_HAS_EXPIRED' };
  expect(recordOf({ credential: 'jwt', ...jwt })).toMatchObject({ presented: 'jwt', ...jwt });
  expect(recordOf({ credential: 'certificate', ...certificate })).toMatchObject(certificate);
});

it.each(['4111111111111111', 'CN=4111 1111 1111 1111'])(
  'names that may be card numbers are redacted: %s',
  (name) => {
    expect(recordOf({ credential: 'jwt', jwtSubject: name, certificateSubject: name })).toMatchObject({
      jwtSubject: redactedLogin,
      certificateSubject: expect.stringMatching(/redacted: looks like a card number\]$/),
    });
    const credential = { kind: 'jwt', issuer: 'idp', subject: name } as const;
    expect(JSON.stringify(recordOf({ credential: 'jwt' }, { caller: 'x', credential }))).not.toMatch(/1111/);
  },
);
