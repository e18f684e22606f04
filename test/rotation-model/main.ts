import { parseArgs } from 'node:util';
import { generate } from './generate.ts';
import { run } from './run.ts';

const { values } = parseArgs({
  options: { schedules: { type: 'string', default: '100000' }, seed: { type: 'string', default: '1' } },
});
const [first, count] = [Number(values.seed), Number(values.schedules)];
let failed = 0;
for (let seed = first; seed < first + count; seed += 1) {
  const { violations, timeline } = await run(generate(seed));
  if (violations.length === 0) continue;
  failed += 1;
  if (failed > 3) continue;
  process.stdout.write(`seed ${seed}\n${timeline.join('\n')}\n${violations.join('\n')}\n\n`);
}
process.stdout.write(`${count} schedules from seed ${first}: ${failed} with violations\n`);
process.exitCode = failed === 0 ? 0 : 1;
