import { increment, markdown, oneOf, positiveInteger, runCommand } from '../support/command.ts';
import { generate } from './generate.ts';
import { run } from './run.ts';
import { families } from './schedule.ts';

const usage = `Usage: npm run rotation-model -- [options]

Runs the rules of key rotation with random schedules on a virtual clock. Prints the timeline of the first schedule in
which a promise is broken, and how many requests the gateway rejected, and why. Exit code 1 if a promise is broken.

  --schedules N  how many schedules (default 10000)
  --seed S       seed of the first one (default 1); the same seed gives the same schedule
  --family F     ordinary: rotations and restarts
                 hostile: the same beside a caller that invents whatever it can
                 odd: a gateway, callers and a Vault that are not as they should be
                 (default: in turn)`;

const text = { type: 'string' } as const;

await runCommand(usage, { schedules: text, seed: text, family: text }, async (values) => {
  const schedules = positiveInteger('schedules', values.schedules ?? '10000');
  const first = positiveInteger('seed', values.seed ?? '1');
  const family = values.family === undefined ? undefined : oneOf('family', families, values.family);
  const counts = new Map<string, number>();
  let failed = 0;
  for (let seed = first; seed < first + schedules; seed += 1) {
    const schedule = generate(seed, family);
    const { violations, timeline, figures } = await run(schedule);
    for (const [name, count] of figures) increment(counts, `${schedule.family}: ${name}`, count);
    if (violations.length === 0) continue;
    if (failed === 0) console.log(timeline.join('\n'));
    failed += 1;
    console.log(`seed ${seed}, ${schedule.family}:\n${violations.join('\n')}\n`);
  }
  console.log(
    `${markdown([['what', 'count'], ...[...counts].sort(([one], [other]) => (one < other ? -1 : 1))])}\n${schedules} schedules from seed ${first}: ${failed} with violations`,
  );
  return failed === 0;
});
