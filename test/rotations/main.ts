import { markdown, oneOf, positiveInteger, runCommand, someOf } from '../support/command.ts';
import { every } from './disturb.ts';
import { type Cost, violationsOf } from './judge.ts';
import { disturbances, orders, traffics } from './rotation.ts';
import { run } from './run.ts';

const usage = `Usage: npm run rotations -- [options]

Rotates the keys of many logins at once, in either order and with the pauses that people take, under constant load
through real processes, and prints what each rotation cost. Exit code 1 where one cost more than it may. With the
environment variable VAULT_BIN, a vault or bao takes the place of the stub; that needs the program openssl.

  --instances N    processes (default 2)
  --pauses LIST    seconds between the two events of a rotation (default 0,5,30,60,120)
  --orders LIST    ${orders.join(', ')} (default all)
  --traffic KIND   ${traffics.join(', ')} (default mixed): queries and payments, or 20 payments a second of each login
  --with EVENT     ${disturbances.join(', ')} (default none); every ${every} s, right
                   before a rotation, between its two events, or right after it
  --seed S         the moments within these rules (default 1); the same seed gives the same
  --rate N         requests per second of all rows together (default 100)`;

const head =
  'row|order|pause, s|moment|switches|reads|failed|403 after, s|payments|403|403 too late|other|doubled'.split(
    '|',
  );

function cells({ row, ...cost }: Cost): readonly (string | number)[] {
  const { number, order, pause, moment, switches } = row;
  const reads = [cost.reads, cost.failedReads.length, cost.lateSeconds.toFixed(1)];
  const payments = [cost.payments, cost.rejected, cost.latePayments.length, cost.otherPayments.length];
  return [number, order, pause, moment, switches, ...reads, ...payments, cost.doubled];
}

const text = { type: 'string' } as const;
const withDefault = <Default extends string>(fallback: Default) => ({ ...text, default: fallback });

await runCommand(
  usage,
  {
    instances: withDefault('2'),
    pauses: withDefault('0,5,30,60,120'),
    orders: text,
    traffic: withDefault('mixed'),
    with: withDefault('none'),
    seed: withDefault('1'),
    rate: withDefault('100'),
  },
  async (values) => {
    const result = await run({
      instances: positiveInteger('instances', values.instances),
      pauses: values.pauses.split(',').map((one) => (one === '0' ? 0 : positiveInteger('pauses', one))),
      orders: someOf('orders', orders, values.orders),
      traffic: oneOf('traffic', traffics, values.traffic),
      disturbance: oneOf('with', disturbances, values.with),
      seed: positiveInteger('seed', values.seed),
      rate: positiveInteger('rate', values.rate),
    });
    const { costs, requestsPerSecond, reads } = result;
    console.log(markdown([head, ...costs.map(cells)]));
    const [average, most] = [reads.average.toFixed(1), reads.most.toFixed(0)];
    console.log(
      `\n${requestsPerSecond.toFixed(0)} requests/s; Vault reads/s per instance: ${average}, at most ${most}`,
    );
    const violations = violationsOf(result);
    for (const violation of violations) console.log(`BROKEN: ${violation}`);
    return violations.length === 0;
  },
);
