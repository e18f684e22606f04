import { table } from '../../src/cli/shared/table.ts';
import { runCommand } from '../support/command.ts';
import { type Cost, violationsOf } from './judge.ts';
import { readOptions, usage, usageHint } from './options.ts';
import { run } from './run.ts';

const head =
  'order|pause|switches|reads|failed|403 after, s|payments|403|known|allowed|503|other|doubled'.split('|');

function cells({ row, ...cost }: Cost): readonly string[] {
  const { reads, failedReads, lateSeconds, payments, rejectedPayments, knownRejected, probesAllowed } = cost;
  const numbers = [row.switches, reads, failedReads];
  const ofPayments = [
    payments,
    rejectedPayments,
    knownRejected,
    probesAllowed,
    cost.notSent,
    cost.otherPayments,
  ];
  return [row.order, `${row.pause} s`, ...numbers, lateSeconds.toFixed(1), ...ofPayments, cost.doubled].map(
    String,
  );
}

await runCommand({ readOptions, usage, usageHint }, async (options) => {
  const { costs, requestsPerSecond, mostReads, averageReads } = await run(options);
  const { instances, disturbance, canary, vault } = options;
  console.log(
    `${instances} instances, with ${disturbance}, canary ${canary ? 'on' : 'off'}, ${vault ?? 'the stub'}`,
  );
  for (const line of table(head, costs.map(cells), 120)) console.log(`  ${line}`);
  console.log(
    `  ${requestsPerSecond.toFixed(0)} requests/s; Vault reads/s of an instance: ${averageReads.toFixed(1)}, at most ${mostReads.toFixed(0)}`,
  );
  const violations = costs.flatMap(violationsOf);
  for (const violation of violations) console.log(`  BROKEN: ${violation}`);
  process.exitCode = violations.length === 0 ? 0 : 1;
});
