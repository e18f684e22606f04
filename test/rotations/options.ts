import { parseArgs } from 'node:util';
import { positiveInteger } from '../support/command.ts';

/** What happens to the processes or to Vault, again and again while keys rotate. */
export const disturbances = ['none', 'sighup', 'restart', 'killed', 'hung', 'sealed'] as const;
export type Disturbance = (typeof disturbances)[number];

export const usage = `Usage: npm run rotations -- [options]

Rotates the keys of many logins at once, in either order and with the pauses that people take, under constant load
through real processes, and prints what each rotation cost. Exit code 1 where one cost more than it may.

  --instances N    processes (default 2)
  --pauses LIST    seconds between the two events of a rotation (default 0,5,30,60,120)
  --with EVENT     ${disturbances.join(', ')} (default none)
  --canary         keys.rotation.canary
  --vault PROGRAM  a vault or bao in place of the stub (default VAULT_BIN); needs the program openssl
  --help           prints this`;

export const usageHint = 'Run "npm run rotations -- --help" for the options.';

export interface Options {
  readonly instances: number;
  /** Seconds. */
  readonly pauses: readonly number[];
  readonly disturbance: Disturbance;
  readonly canary: boolean;
  readonly vault: string | undefined;
}

/** @throws TypeError for an unknown option or value */
export function readOptions(args: string[]): Options | 'help' {
  const { values } = parseArgs({
    args,
    options: {
      instances: { type: 'string', default: '2' },
      pauses: { type: 'string', default: '0,5,30,60,120' },
      with: { type: 'string', default: 'none' },
      canary: { type: 'boolean', default: false },
      vault: { type: 'string' },
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
    canary: values.canary,
    vault: values.vault ?? process.env['VAULT_BIN'],
  };
}
