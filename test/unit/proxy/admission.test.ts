import { describe, expect, it } from '@jest/globals';
import { Refusal } from '../../../src/errors.ts';
import { Admission } from '../../../src/proxy/admission.ts';

function refusalOf(act: () => unknown): Refusal {
  try {
    act();
  } catch (error) {
    if (error instanceof Refusal) return error;
  }
  throw new Error('not refused');
}

describe('admission', () => {
  it('refuses one more than the limit, and admits again when one has left', () => {
    const admission = new Admission();
    const leave = admission.enter('sandbox', 2);
    admission.enter('sandbox', 2);
    const refusal = refusalOf(() => admission.enter('sandbox', 2));
    expect(refusal).toMatchObject({ reason: 'overloaded', status: 503, outcome: 'not-sent' });
    expect(refusal.headers).toEqual({ 'Retry-After': '1' });
    leave();
    expect(() => admission.enter('sandbox', 2)).not.toThrow();
  });

  it('counts each environment for itself', () => {
    const admission = new Admission();
    admission.enter('sandbox', 1);
    expect(() => admission.enter('production', 1)).not.toThrow();
  });

  it('goes by the limit in force: a smaller one after a reload admits nobody until enough have left', () => {
    const admission = new Admission();
    const leaves = [1, 2, 3].map(() => admission.enter('sandbox', 3));
    expect(refusalOf(() => admission.enter('sandbox', 2)).reason).toBe('overloaded');
    leaves[0]?.();
    expect(refusalOf(() => admission.enter('sandbox', 2)).reason).toBe('overloaded');
    leaves[1]?.();
    expect(() => admission.enter('sandbox', 2)).not.toThrow();
  });
});
