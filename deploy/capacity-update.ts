import { readFileSync, writeFileSync } from 'node:fs';
import { z } from 'zod';
import { median } from '../test/bench/statistics.ts';
import { between, computed, type Measured, measuredShape, withMeasured } from './capacity.ts';

const way = z.object({ cpu: z.number() });
const signing = z.object({ core: z.number() });
const round = z.object({
  ways: z.object({ hmac: way, 'rsa-2048': way, 'rsa-4096': way }),
  signing: z.object({ 2048: signing, 4096: signing }),
});
/** What `npm run bench -- --json FILE` writes; CPU in seconds, signatures each second. */
const benchShape = z.object({ setting: z.string(), rounds: z.array(round).min(1) });
/** What test/support/capacity-measurements.ts prints. */
const othersShape = measuredShape.pick({ handshake: true, logLine: true, login: true });

function measuredIn({ rounds }: z.output<typeof benchShape>, others: z.output<typeof othersShape>): Measured {
  const over = (value: (one: (typeof rounds)[number]) => number): number => 1000 * median(rounds.map(value));
  return {
    hmac: over(({ ways }) => ways.hmac.cpu),
    rsa2048: over(({ ways }) => ways['rsa-2048'].cpu),
    signature2048: over((one) => 1 / one.signing[2048].core),
    rsa4096: over(({ ways }) => ways['rsa-4096'].cpu),
    signature4096: over((one) => 1 / one.signing[4096].core),
    ...others,
  };
}

// To measure anew, on a machine that does nothing else:
//   npm run bench -- --json bench.json && node test/support/capacity-measurements.ts > others.json
//   node deploy/capacity-update.ts bench.json others.json
// Without the files the page's tables are computed from what was measured before.
const page = new URL('capacity.md', import.meta.url);
const before = readFileSync(page, 'utf8');
const [, , benchFile, othersFile] = process.argv;
if (benchFile === undefined || othersFile === undefined) {
  writeFileSync(page, computed(before));
} else {
  const bench = benchShape.parse(JSON.parse(readFileSync(benchFile, 'utf8')));
  const others = othersShape.parse(JSON.parse(readFileSync(othersFile, 'utf8')));
  const machine = `Measured on ${new Date().toISOString().slice(0, 10)}: ${bench.setting.split('\n').join(' ')}`;
  writeFileSync(page, computed(withMeasured(between(before, 'machine', machine), measuredIn(bench, others))));
}
