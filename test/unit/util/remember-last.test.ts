import { expect, it } from '@jest/globals';
import { rememberLast } from '../../../src/util/remember-last.ts';

it('computes again only for another argument than the last one', () => {
  const computed: number[] = [];
  const double = rememberLast((value: number) => {
    computed.push(value);
    return 2 * value;
  });
  expect([1, 1, 2, 2, 1].map(double)).toEqual([2, 2, 4, 4, 2]);
  expect(computed).toEqual([1, 2, 1]);
});

it('remembers a result of undefined, but not a failure', () => {
  let calls = 0;
  const compute = rememberLast((fails: boolean) => {
    calls += 1;
    if (fails) throw new Error('failed');
  });
  expect(() => compute(true)).toThrow('failed');
  expect(() => compute(true)).toThrow('failed');
  compute(false);
  compute(false);
  expect(calls).toBe(3);
});
