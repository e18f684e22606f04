import { describe, expect, it } from '@jest/globals';
import { errorTable, type Reason } from '../../../src/errors.ts';
import { Labels, responsibleParty, statusLabel } from '../../../src/observability/labels.ts';

const labels = new Labels();
labels.allow({
  environments: { sandbox: { operations: ['transfer', 'get'], maxInFlight: 1 } },
  callers: ['billing'],
});

describe('a label', () => {
  it('is the name if it is configured', () => {
    expect(labels.route('sandbox', 'transfer')).toEqual({ environment: 'sandbox', operation: 'transfer' });
    expect(labels.caller('billing')).toEqual({ caller: 'billing' });
  });

  it.each(['__proto__', 'constructor', 'toString', '', 'Sandbox', 'sandbox\n'])('of %j is other', (name) => {
    expect(labels.route(name, name)).toEqual({ environment: 'other', operation: 'other' });
    expect(labels.caller(name)).toEqual({ caller: 'other' });
  });

  it('of an unknown value is none', () => {
    expect(labels.route(undefined, undefined)).toEqual({ environment: 'none', operation: 'none' });
    expect(labels.environment(undefined)).toEqual({ environment: 'none' });
  });

  it.each([
    [200, '200'],
    [499, '499'],
    [999, 'other'],
    [299.5, 'other'],
    [undefined, 'none'],
  ])('of status %p is %s', (status, label) => {
    expect(statusLabel(status)).toBe(label);
  });

  it('exists for the status of every error', () => {
    for (const { status } of Object.values(errorTable)) expect(statusLabel(status)).toBe(String(status));
  });
});

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
