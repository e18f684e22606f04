import { runCommand } from '../support/command.ts';
import { Counts } from './counts.ts';
import { type Options, readOptions, usage } from './options.ts';
import { run } from './run.ts';

/** Maximum number of schedules that are printed in full. */
const mostPrinted = 3;

/** Returns whether there was no violation. */
async function runAll({ generate, seed: first, schedules }: Options): Promise<boolean> {
  const startedAt = performance.now();
  const counts = new Counts();
  let failed = 0;
  for (let seed = first; seed < first + schedules; seed += 1) {
    const schedule = generate(seed);
    const { violations, timeline, counts: ofOne } = await run(schedule);
    counts.addAll(ofOne);
    if (violations.length === 0) continue;
    failed += 1;
    if (failed <= mostPrinted)
      console.log(`${schedule.name}\n${timeline.join('\n')}\n${violations.join('\n')}\n`);
  }
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  console.log(
    `${counts.table()}\n${schedules} schedules from seed ${first} in ${seconds} s: ${failed} with violations`,
  );
  return failed === 0;
}

await runCommand({ readOptions, usage }, async (options) => {
  process.exitCode = (await runAll(options)) ? 0 : 1;
});
