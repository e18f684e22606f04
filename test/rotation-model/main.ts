import { runCommand } from '../support/command.ts';
import { Figures } from './figures.ts';
import { generate } from './generate.ts';
import { type Options, readOptions, usage } from './options.ts';
import { run } from './run.ts';

/** Maximum number of schedules that are printed in full. */
const mostPrinted = 3;

/** Returns whether all promises were kept. */
async function runAll({ family, seed: first, schedules, stop }: Options): Promise<boolean> {
  const startedAt = performance.now();
  const figures = new Figures();
  let failed = 0;
  for (let seed = first; seed < first + schedules; seed += 1) {
    const schedule = generate(seed, family);
    const { violations, timeline, figures: ofOne } = await run(schedule);
    figures.addAll(ofOne, schedule.family);
    if (violations.length === 0) continue;
    failed += 1;
    if (failed <= mostPrinted)
      console.log(`${timeline.join('\n')}\n${violations.join('\n')}\nseed ${seed}, ${schedule.family}\n`);
    if (stop) break;
  }
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  console.log(
    `${figures.table()}\n${schedules} schedules from seed ${first} in ${seconds} s: ${failed} with violations`,
  );
  return failed === 0;
}

await runCommand({ readOptions, usage }, async (options) => {
  process.exitCode = (await runAll(options)) ? 0 : 1;
});
