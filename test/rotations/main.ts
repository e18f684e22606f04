import { table } from '../../src/cli/shared/table.ts';
import { runCommand } from '../support/command.ts';
import { type Cost, violationsOf } from './judge.ts';
import { readOptions, usage } from './options.ts';
import { run } from './run.ts';

const head =
  'row|order|pause|gateway|moment|switches|reads|failed|403 after, s|payments|403: no key|late|notices|steps|too many|other|doubled'.split(
    '|',
  );

function cells({ row, ...cost }: Cost): readonly string[] {
  const { number, order, pause, gateway, moment, switches } = row;
  const { noKey, late, notices, steps, others } = cost.rejected;
  const reads = [cost.reads, cost.failedReads, cost.lateSeconds.toFixed(1)];
  const payments = [cost.payments, noKey, late, notices, steps, others, cost.otherPayments, cost.doubled];
  return [number, order, `${pause} s`, gateway, moment, switches, ...reads, ...payments].map(String);
}

await runCommand({ readOptions, usage }, async (options) => {
  const result = await run(options);
  const { costs, requestsPerSecond, reads } = result;
  const { instances, traffic, callers, disturbance, vault } = options;
  console.log(
    `${instances} instances, ${traffic} requests of ${callers} callers, with ${disturbance}, ${vault === undefined ? 'the stub' : 'a real server'}`,
  );
  for (const line of table(head, costs.map(cells), 160)) console.log(`  ${line}`);
  console.log(
    `  ${requestsPerSecond.toFixed(0)} requests/s; Vault reads/s per instance: ${reads.average.toFixed(1)}, at most ${reads.most.toFixed(0)}, right after an event ${reads.mostAfter.toFixed(0)}`,
  );
  const violations = violationsOf(result);
  for (const violation of violations) console.log(`  BROKEN: ${violation}`);
  process.exitCode = violations.length === 0 ? 0 : 1;
});
