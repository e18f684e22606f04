import { expect, it } from '@jest/globals';
import { callers } from '../../../src/cli/callers.ts';
import { exitCode } from '../../../src/cli/shared/cli-error.ts';
import { catchSignals } from '../../../src/service/signals.ts';

it('does not print the message of an unexpected error, which may hold the token', async () => {
  const errors: string[] = [];
  const tokens: string[] = [];
  const out = (line: string): void => {
    tokens.push(line);
    throw new TypeError(`cannot print ${line}`);
  };

  const exit = await callers(['token'], { out, err: (line) => errors.push(line) }, catchSignals(false));

  expect(exit).toBe(exitCode.failed);
  expect(errors.join('\n')).toMatch(/^countersign callers token: Internal error \(TypeError/m);
  expect(tokens).toHaveLength(1);
  expect(errors.join('\n')).not.toContain(tokens[0]);
});
