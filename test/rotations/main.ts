import { table } from '../../src/cli/shared/table.ts';
import { runCommand } from '../support/command.ts';
import { type Cost, violationsOf } from './judge.ts';
import { readOptions, usage } from './options.ts';
import { run } from './run.ts';

const head =
  'row|order|pause|moment|switches|reads|failed|403 after, s|payments|403|known|allowed|503|other|doubled'.split(
    '|',
  );

function cells({ row, ...cost }: Cost): readonly string[] {
  const { number, order, pause, moment, switches } = row;
  const reads = [cost.reads, cost.failedReads, cost.lateSeconds.toFixed(1)];
  const payments = [cost.payments, cost.rejectedPayments, cost.knownRejected, cost.probesAllowed];
  const rest = [cost.notSent, cost.otherPayments, cost.doubled];
  return [number, order, `${pause} s`, moment, switches, ...reads, ...payments, ...rest].map(String);
}

await runCommand({ readOptions, usage }, async (options) => {
  const result = await run(options);
  const { costs, requestsPerSecond, reads } = result;
  const { instances, disturbance, vault } = options;
  console.log(`${instances} instances, with ${disturbance}, ${vault ?? 'the stub'}`);
  for (const line of table(head, costs.map(cells), 140)) console.log(`  ${line}`);
  console.log(
    `  ${requestsPerSecond.toFixed(0)} requests/s; Vault reads/s per instance: ${reads.average.toFixed(1)}, at most ${reads.most.toFixed(0)}, right after an event ${reads.mostAfter.toFixed(0)}`,
  );
  const violations = violationsOf(result);
  for (const violation of violations) console.log(`  BROKEN: ${violation}`);
  process.exitCode = violations.length === 0 ? 0 : 1;
});
