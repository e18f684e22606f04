import { type Options, readOptions, usage } from './options.ts';
import { report } from './report.ts';
import { runFaults } from './run.ts';

async function faults(options: Options): Promise<boolean> {
  const startedAt = performance.now();
  let shownAt = startedAt;
  const progress = (requests: number): void => {
    if (performance.now() - shownAt < 5_000) return;
    shownAt = performance.now();
    const seconds = Math.round((shownAt - startedAt) / 1000);
    process.stderr.write(`${requests} of ${options.requests} requests after ${seconds} s\n`);
  };
  const run = await runFaults({ ...options, progress });
  console.log(`Seed ${options.seed}, ${options.concurrency} callers at once, Node ${process.version}\n`);
  console.log(report(run));
  return run.violations.length === 0;
}

const options = readOptions(process.argv.slice(2));
if (options === 'help') console.log(usage);
else process.exitCode = (await faults(options)) ? 0 : 1;
