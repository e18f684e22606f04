import { parseArgs } from 'node:util';
import { positiveInteger } from '../support/command.ts';
import { generate } from './generate.ts';
import { generateAbsences, generateLogins, generatePauses } from './generate-slow.ts';
import type { Schedule } from './schedule.ts';

export const usage = `Usage: npm run rotation-model -- [options]

Runs the rules of key rotation with random schedules on a virtual clock, and prints the timeline of the first
schedules that break a rule. Exit code 1 where one did.

  --schedules N  how many schedules (default 100000)
  --seed S       seed of the first one (default 1); the same seed gives the same schedule
  --family F     rotations: some rotations and failures of one login
                 pauses: as slow as people rotate, with reloads, restarts and outages of Vault
                 logins: many of them, with few slots and a Vault that hangs
                 absences: Vault forgets, denies or deletes logins, and has them again
                 (default: in turn; of six, three are rotations)
  --help         show this help`;

const families = {
  rotations: generate,
  pauses: generatePauses,
  logins: generateLogins,
  absences: generateAbsences,
};

export type Options = Exclude<ReturnType<typeof readOptions>, 'help'>;

/** @throws TypeError for an unknown option, or a value that is not a positive integer */
export function readOptions(args: string[]) {
  const { values } = parseArgs({
    args,
    options: {
      schedules: { type: 'string', default: '100000' },
      seed: { type: 'string', default: '1' },
      family: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  return {
    generate: generatorOf(values.family),
    schedules: positiveInteger('schedules', values.schedules),
    seed: positiveInteger('seed', values.seed),
  };
}

function generatorOf(family: string | undefined): (seed: number) => Schedule {
  if (family === undefined) return inTurn;
  const found = Object.entries(families).find(([name]) => name === family);
  if (found !== undefined) return found[1];
  throw new TypeError(`--family must be ${Object.keys(families).join(', ')}, not ${JSON.stringify(family)}`);
}

/** Rotations are many short schedules, the others few long ones. */
const turns = [generate, generate, generate, generatePauses, generateLogins, generateAbsences];

function inTurn(seed: number): Schedule {
  return (turns[seed % turns.length] ?? generate)(seed);
}
