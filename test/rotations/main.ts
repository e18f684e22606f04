import { markdown, oneOf, positiveInteger, runCommand, someOf } from '../support/command.ts';
import { violationsOf } from './judge.ts';
import { orders, traffics } from './rotation.ts';
import { run } from './run.ts';

const usage = `Usage: npm run rotations -- [options]

Rotates the keys of many logins at once, in either order and with the pauses that people take, under constant load
through real processes, and prints what each rotation cost. Exit code 1 where one cost more than it may.

  --instances N    processes (default 2)
  --pauses LIST    seconds between the two events of a rotation (default 0,5,30,60,120)
  --orders LIST    ${orders.join(', ')} (default all)
  --traffic KIND   ${traffics.join(', ')} (default mixed): queries and payments, or 20 payments a second of each login
  --rate N         requests per second of all rows together (default 100)`;

const head = 'row|order|pause, s|switches|reads|failed|payments|403|403 too late|other|doubled'.split('|');

const text = { type: 'string' } as const;

await runCommand(
  usage,
  { instances: text, pauses: text, orders: text, traffic: text, rate: text },
  async ({ instances = '2', pauses = '0,5,30,60,120', traffic = 'mixed', rate = '100', ...values }) => {
    const result = await run({
      instances: positiveInteger('instances', instances),
      pauses: pauses.split(',').map((one) => (one === '0' ? 0 : positiveInteger('pauses', one))),
      orders: someOf('orders', orders, values.orders),
      traffic: oneOf('traffic', traffics, traffic),
      rate: positiveInteger('rate', rate),
    });
    const rows = result.costs.map(({ row, ...cost }) => {
      const { reads, failedReads, payments, rejected, latePayments, otherPayments, doubled } = cost;
      const { number, order, pause, switches } = row;
      const counts = [failedReads, latePayments, otherPayments].map(({ length }) => length);
      const [failed = 0, late = 0, other = 0] = counts;
      return [number, order, pause, switches, reads, failed, payments, rejected, late, other, doubled];
    });
    console.log(markdown([head, ...rows]));
    console.log(
      `\n${result.requestsPerSecond.toFixed(0)} requests/s; at most ${result.mostReads.toFixed(0)} Vault reads/s per instance`,
    );
    const violations = violationsOf(result);
    for (const violation of violations) console.log(`BROKEN: ${violation}`);
    return violations.length === 0;
  },
);
