import { positiveInteger, runCommand, someOf } from '../support/command.ts';
import { runWay, separateCores } from './run.ts';
import { wayNames, ways } from './ways.ts';

const usage = `Usage: npm run abuse -- [options]

Attacks a process in every known way, beside a well-behaved victim, and prints what the victim saw and what the process
needed before, during and after. Exit code 1 where a limit was broken.

  --only WAYS    only these ways, with commas
  --seed N       what the attacker chooses (default 1)
  --seconds S    how long each attack lasts (default 10); half as long before and after
  --slack T      milliseconds by which a limit on time may be exceeded on a busy machine (default none)

Ways:
${wayNames.map((name) => `  ${name.padEnd(18)} ${ways[name].title}`).join('\n')}`;

const text = { type: 'string' } as const;

await runCommand(usage, { only: text, seed: text, seconds: text, slack: text }, async (values) => {
  const only = someOf('only', wayNames, values.only);
  const seed = positiveInteger('seed', values.seed ?? '1');
  const seconds = positiveInteger('seconds', values.seconds ?? '10');
  const slack = values.slack === undefined ? 0 : positiveInteger('slack', values.slack);
  const onCore = separateCores();
  if (onCore.length === 0) console.log('The attacker takes time from the process: no taskset, or one core.');
  const broken: string[] = [];
  for (const way of only) {
    const result = await runWay(way, { seed, seconds, slack, onCore });
    if (result.broken.length > 0) broken.push(way);
    console.log(result.report);
  }
  console.log(broken.length === 0 ? `held: ${only.length} ways` : `broken: ${broken.join(', ')}`);
  return broken.length === 0;
});
