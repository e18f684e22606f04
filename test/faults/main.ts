import { positiveInteger, runCommand } from '../support/command.ts';
import { report } from './report.ts';
import { runFaults } from './run.ts';

const usage = `Usage: npm run faults -- [options]

Sends requests through Countersign to a gateway that goes wrong, from callers that disconnect, pipeline and half-close,
while the processes are restarted, reloaded and killed. Then compares what the callers received, what the gateway saw and
what the log says. Exit code 1 where a promise was broken.

  --requests N   how many requests (default 10000)
  --seed S       which faults, callers and moments (default 1); the same seed gives the same`;

const text = { type: 'string' } as const;

await runCommand(usage, { requests: text, seed: text }, async (values) => {
  const { requests = '10000', seed = '1' } = values;
  const run = await runFaults({
    requests: positiveInteger('requests', requests),
    seed: positiveInteger('seed', seed),
  });
  console.log(`Seed ${seed}, Node ${process.version}: ${report(run)}`);
  return run.violations.length === 0;
});
