import { describe, expect, it } from '@jest/globals';
import { type Reason, responsibleParty } from '../../src/errors.ts';

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
