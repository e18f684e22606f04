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

/** @param form in the encoding of a URL */
function orderIdOf(form: string): string | undefined {
  return intentFields({
    request: {
      record: { id: 'a' },
      destination: { environment: 'sandbox', operation: { name: 'payout' } },
      form: [...new URLSearchParams(form)],
    },
    key: { kind: 'control_key', version: 1 },
    signature: { nonce: 'nonce', timestamp: 1 },
  }).clientOrderId;
}

it.each([
  ['client_orderid=a', 'a'],
  ['client-order-id=a&amount=1', 'a'],
  ['client_orderid=a&client-order-id=a', 'a'],
  ['client-order-id=a&client-order-id=a', 'a'],
  ['client_orderid=a&client_orderid=b', undefined],
  ['client-order-id=a&client_orderid=b', undefined],
  ['client_order_id=a', undefined],
  ['client-order-id=4000007711223344', 'omitted'],
])('an intent names the order if it is known which one the gateway takes: %s', (form, id) => {
  expect(orderIdOf(form)).toBe(id);
});
