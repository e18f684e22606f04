import { describe, expect, it } from '@jest/globals';
import { ProxyError, type Reason, responsibleParty } from '../../src/errors.ts';
import { serverAttributes } from '../../src/trace.ts';

describe('the responsible party', () => {
  it.each<[Reason | undefined, number | undefined, string]>([
    [undefined, 200, 'none'],
    [undefined, 403, 'none'],
    [undefined, 500, 'gateway'],
    ['malformed-form', undefined, 'caller'],
    ['not-allowed', undefined, 'caller'],
    ['caller-gone', undefined, 'caller'],
    ['overloaded', undefined, 'countersign'],
    ['key-missing', undefined, 'countersign'],
    ['internal', 200, 'countersign'],
    ['gateway-unreachable', undefined, 'gateway'],
    ['gateway-timeout', 200, 'gateway'],
  ])('on reason %s, gateway status %p: %s', (reason, gatewayStatus, fault) => {
    expect(responsibleParty({ ...(reason && { reason }), ...(gatewayStatus && { gatewayStatus }) })).toBe(
      fault,
    );
  });
});

it('an error with another detail is the same one apart from that', () => {
  const cause = new Error('cause');
  const same = { outcome: 'unknown', limit: 'key reads' } as const;
  const options = { ...same, cause, retryAfter: 1.5, headers: { Allow: 'POST' } };
  const error = new ProxyError('overloaded', 'First.', options).withDetail('Second.');
  expect(error).toMatchObject({ reason: 'overloaded', detail: 'Second.', status: 503, ...same });
  expect(error.headers).toEqual({ Allow: 'POST', 'Retry-After': '2' });
  expect(error.cause).toBe(cause);
});

it.each([
  ['http://127.0.0.1/x', '127.0.0.1', 80],
  ['https://gateway.example', 'gateway.example', 443],
  ['https://gateway.example:8443/', 'gateway.example', 8443],
])('the span of a request to %s has its host and port', (address, host, port) => {
  expect(serverAttributes(address)).toEqual({ 'server.address': host, 'server.port': port });
});
