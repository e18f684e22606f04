import { parseArgs } from 'node:util';
import { positiveInteger } from '../support/command.ts';
import { families } from './schedule.ts';

export const usage = `Usage: npm run rotation-model -- [options]

Runs the rules of key rotation with random schedules on a virtual clock. Prints the timeline of the first schedules in
which a promise is broken, and how many requests the gateway rejected, and why. Exit code 1 if a promise is broken.

  --schedules N  how many schedules (default 10000)
  --seed S       seed of the first one (default 1); the same seed gives the same schedule
  --family F     ordinary: rotations, restarts and reloads
                 hostile: the same beside a caller that invents whatever it can
                 odd: a gateway, callers and a Vault that are not as they should be
                 (default: in turn)
  --stop         end after the first schedule that breaks a promise
  --help         show this help`;

export type Options = Exclude<ReturnType<typeof readOptions>, 'help'>;

/** @throws TypeError for an unknown option, or a value that is not a positive integer */
export function readOptions(args: string[]) {
  const { values } = parseArgs({
    args,
    options: {
      schedules: { type: 'string', default: '10000' },
      seed: { type: 'string', default: '1' },
      family: { type: 'string' },
      stop: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  const family = families.find((one) => one === values.family);
  if (family === undefined && values.family !== undefined)
    throw new TypeError(`--family must be ${families.join(', ')}, not ${JSON.stringify(values.family)}`);
  return {
    stop: values.stop,
    family,
    schedules: positiveInteger('schedules', values.schedules),
    seed: positiveInteger('seed', values.seed),
  };
}
