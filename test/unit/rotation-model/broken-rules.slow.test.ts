import { expect, it } from '@jest/globals';
import { brokenRules, runBroken } from '../../rotation-model/broken-rules.ts';

it.each(brokenRules)(
  'the model finds it when this is broken: $rule',
  (broken) => {
    const output = runBroken(broken, 300);
    const violations = output.split('\n').filter((line) => /^\d+\.\d{3} s: /.test(line));
    expect(violations.join('\n')).toMatch(broken.found);
  },
  240_000,
);
