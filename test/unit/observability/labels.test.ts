import { describe, expect, it } from '@jest/globals';
import { errorTable } from '../../../src/errors.ts';
import { Labels, statusLabel } from '../../../src/observability/metrics-recorder.ts';
import { routesOf } from '../../support/routes.ts';

const labels = new Labels();
labels.allow(routesOf());

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
