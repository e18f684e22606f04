import { parseArgs } from 'node:util';
import { positiveInteger } from '../support/command.ts';

/** Seconds from one such event to the next. */
export const every = 15;

/** What happens to the processes or to Vault, again and again while keys rotate. */
export const disturbances = ['none', 'sighup', 'restart', 'killed', 'hung', 'sealed'] as const;
export type Disturbance = (typeof disturbances)[number];

export const orders = ['both at once', 'Vault first', 'gateway first', 'overlap'] as const;
export type Order = (typeof orders)[number];

/**
 * What a gateway is like: as described; it rejects with 401; its clock is two minutes ahead, which it tolerates; it reports
 * business errors as 4xx; a balancer before it responds to every fourth request by itself; it rejects all requests to a second
 * endpoint of the login.
 */
export const gateways = ['plain', '401', 'skew', '4xx', 'balancer', 'denied'] as const;
export type Gateway = (typeof gateways)[number];

/** Requests of a login: queries and payments, or payments alone, 20 a second or one a minute. */
export const traffics = ['mixed', 'payments', 'rare'] as const;

export const usage = `Usage: npm run rotations -- [options]

Rotates the keys of many logins at once, in either order and with the pauses that people take, under constant load
through real processes, and prints what each rotation cost. Exit code 1 where one cost more than it may.

  --instances N    processes (default 2)
  --pauses LIST    seconds between the two events of a rotation (default 0,5,30,60,120)
  --orders LIST    ${orders.join(', ')} (default all)
  --gateways LIST  ${gateways.join(', ')} (default plain); the last five
                   reject with 401, have a clock that is ahead, report business errors as 4xx, stand behind a
                   balancer that responds by itself, or deny a second endpoint of the login
  --traffic KIND   ${traffics.join(', ')} (default mixed): queries and payments; payments alone, 20
                   a second or one a minute of each login
  --callers N      callers of each login (default 2)
  --latency MS     of the gateway, on average (default 50)
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
      orders: { type: 'string', default: orders.join() },
      gateways: { type: 'string', default: 'plain' },
      traffic: { type: 'string', default: 'mixed' },
      callers: { type: 'string', default: '2' },
      latency: { type: 'string', default: '50' },
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
  return {
    instances: positiveInteger('instances', values.instances),
    pauses: values.pauses.split(',').map((text) => (text === '0' ? 0 : positiveInteger('pauses', text))),
    orders: values.orders.split(',').map((text) => oneOf('orders', orders, text)),
    gateways: values.gateways.split(',').map((text) => oneOf('gateways', gateways, text)),
    traffic: oneOf('traffic', traffics, values.traffic),
    callers: positiveInteger('callers', values.callers),
    latency: positiveInteger('latency', values.latency),
    disturbance: oneOf('with', disturbances, values.with),
    row: values.row === undefined ? undefined : positiveInteger('row', values.row),
    seed: positiveInteger('seed', values.seed),
    rate: positiveInteger('rate', values.rate),
    program: values.program,
    vault: values.vault ?? process.env['VAULT_BIN'],
  };
}

function oneOf<T extends string>(name: string, all: readonly T[], text: string): T {
  const found = all.find((one) => one === text);
  if (found === undefined) throw new TypeError(`--${name} must be of ${all.join(', ')}, not ${text}`);
  return found;
}
