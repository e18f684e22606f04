import { parseArgs } from 'node:util';
import { positiveInteger } from '../support/command.ts';

/** Seconds from one such event to the next. */
export const every = 15;

/** What happens to the processes or to Vault, again and again while keys rotate. */
export const disturbances = ['none', 'sighup', 'restart', 'killed', 'hung', 'sealed'] as const;
export type Disturbance = (typeof disturbances)[number];

export const usage = `Usage: npm run rotations -- [options]

Rotates the keys of many logins at once, in either order and with the pauses that people take, under constant load
through real processes, and prints what each rotation cost. Exit code 1 where one cost more than it may.

  --instances N    processes (default 2)
  --pauses LIST    seconds between the two events of a rotation (default 0,5,30,60,120)
  --with EVENT     ${disturbances.join(', ')} (default none); every ${every} s, right
                   before a rotation, between its two events, or right after it
  --row N          only this row, by its number in the table
  --seed S         the moments within these rules (default 1); the same seed gives the same
  --rate N         requests per second of all rows together (default 100)
  --vault PROGRAM  a vault or bao in place of the stub (default VAULT_BIN); needs the program openssl
  --program FILE   src/main.ts of another version, to compare (default the one here)
  --help           prints this`;

export type Options = Exclude<ReturnType<typeof readOptions>, 'help'>;

/** @throws TypeError for an unknown option or value */
export function readOptions(args: string[]) {
  const { values } = parseArgs({
    args,
    options: {
      instances: { type: 'string', default: '2' },
      pauses: { type: 'string', default: '0,5,30,60,120' },
      with: { type: 'string', default: 'none' },
      row: { type: 'string' },
      seed: { type: 'string', default: '1' },
      rate: { type: 'string', default: '100' },
      vault: { type: 'string' },
      program: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  const disturbance = disturbances.find((one) => one === values.with);
  if (disturbance === undefined) throw new TypeError(`--with must be one of ${disturbances.join(', ')}`);
  return {
    instances: positiveInteger('instances', values.instances),
    pauses: values.pauses.split(',').map((text) => (text === '0' ? 0 : positiveInteger('pauses', text))),
    disturbance,
    row: values.row === undefined ? undefined : positiveInteger('row', values.row),
    seed: positiveInteger('seed', values.seed),
    rate: positiveInteger('rate', values.rate),
    program: values.program,
    vault: values.vault ?? process.env['VAULT_BIN'],
  };
}
