import { expect, it } from '@jest/globals';
import { endFields, intentFields } from '../../../src/audit/record-fields.ts';
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
  const route = { environment: 'sandbox', operation: 'transfer', login: 'acme', peer: '192.0.2.1' };
  expect(recordOf({ credential: 'none', ...route })).toMatchObject(route);
});

it('an intent names no order if the form has several: it is not known which one the gateway takes', () => {
  const orderIdOf = (...ids: readonly string[]) =>
    intentFields({
      request: {
        record: { id: 'a' },
        destination: { environment: 'sandbox', operation: { name: 'payout' } },
        form: ids.map((id) => ['client_orderid', id] as const),
      },
      key: { kind: 'control_key', version: 1 },
      signature: { nonce: 'nonce', timestamp: 1 },
    }).clientOrderId;
  expect([orderIdOf('a'), orderIdOf('a', 'b'), orderIdOf('a', 'a')]).toEqual(['a', undefined, undefined]);
});
