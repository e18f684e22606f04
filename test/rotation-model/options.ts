import { parseArgs } from 'node:util';
import { positiveInteger } from '../support/command.ts';

export const usage = `Usage: npm run rotation-model -- [options]

Runs the rules of key rotation with random schedules on a virtual clock, and prints the timeline of the first
schedules that break a rule. Exit code 1 where one did.

  --schedules N  how many schedules (default 100000)
  --seed S       seed of the first one (default 1); the same seed gives the same schedule
  --help         show this help`;

export const usageHint = 'Run "npm run rotation-model -- --help" for the options.';

export interface Options {
  readonly schedules: number;
  /** Of the first schedule; the next ones have the following numbers. */
  readonly seed: number;
}

/** @throws TypeError for an unknown option, or a value that is not a positive integer */
export function readOptions(args: string[]): Options | 'help' {
  const { values } = parseArgs({
    args,
    options: {
      schedules: { type: 'string', default: '100000' },
      seed: { type: 'string', default: '1' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  return {
    schedules: positiveInteger('schedules', values.schedules),
    seed: positiveInteger('seed', values.seed),
  };
}
