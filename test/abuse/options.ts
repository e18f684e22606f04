import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { positiveInteger } from '../support/command.ts';
import { type WayName, wayNames, ways } from './ways.ts';

export const usage = `Usage: npm run abuse -- [options]

Attacks a process in every known way, beside a well-behaved victim, and prints what the victim saw and what the process
needed before, during and after. Exit code 1 where a limit was broken.

  --only WAY        only this way; may be repeated
  --seed N          the shapes of names, values, heads, certificates, tokens and tails (default 1)
  --seconds S       how long each attack lasts (default 10); half as long before and after
  --program FILE    the src/main.ts of another version; its configuration must not be older than client certificates
  --slack T         milliseconds by which a limit on time may be exceeded on a busy machine (default 0)
  --help            prints this

Ways:
${wayNames.map((name) => `  ${name.padEnd(18)} ${ways[name].title}`).join('\n')}`;

export type Options = Exclude<ReturnType<typeof readOptions>, 'help'>;

/** @throws TypeError for an unknown option or way, an invalid number, and a program that does not exist */
export function readOptions(args: string[]) {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    options: {
      only: { type: 'string', multiple: true, default: [] },
      seed: text,
      seconds: text,
      program: text,
      slack: text,
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  const number = (name: string, value: string | undefined, fallback: number): number =>
    value === undefined ? fallback : positiveInteger(name, value);
  if (values.program !== undefined && !existsSync(values.program)) {
    throw new TypeError(`--program: there is no file ${values.program}`);
  }
  return {
    only: values.only.length === 0 ? wayNames : values.only.map(wayOf),
    seed: number('seed', values.seed, 1),
    seconds: number('seconds', values.seconds, 10),
    program: values.program,
    slack: number('slack', values.slack, 0),
  };
}

function wayOf(text: string): WayName {
  const found = wayNames.find((name) => name === text);
  if (found === undefined) throw new TypeError(`--only must be one of ${wayNames.join(', ')}`);
  return found;
}
