import { runCommand } from '../support/command.ts';
import { type Options, readOptions, usage } from './options.ts';
import { report, reportRolling } from './report.ts';
import { hasFailed, runRolling } from './rolling.ts';
import { runFaults } from './run.ts';

/** Returns a function that prints progress on standard error, every few seconds at most. */
function progressLine(): (news: string) => void {
  const startedAt = performance.now();
  let shownAt = startedAt;
  return (news) => {
    if (performance.now() - shownAt < 5_000) return;
    shownAt = performance.now();
    process.stderr.write(`${news} after ${Math.round((shownAt - startedAt) / 1000)} s\n`);
  };
}

/** Whether every promise was kept. */
async function faults(options: Options): Promise<boolean> {
  const line = progressLine();
  const progress = (requests: number): void => line(`${requests} of ${options.requests} requests`);
  const run = await runFaults({ ...options, progress });
  console.log(report(run));
  return run.violations.length === 0;
}

/** Whether no request failed, and every promise was kept. */
async function rolling(restarts: number, options: Options): Promise<boolean> {
  const line = progressLine();
  const progress = (count: number, requests: number): void =>
    line(`${count} of ${restarts} restarts, ${requests} requests`);
  const run = await runRolling({ ...options, restarts, callers: rollingCallers, progress });
  console.log(reportRolling(run));
  return run.violations.length === 0 && !run.requests.some(hasFailed);
}

/** Few enough that a machine with two cores causes no failures. */
const rollingCallers = 24;

await runCommand({ readOptions, usage }, async (options) => {
  console.log(`Seed ${options.seed}, Node ${process.version}\n`);
  const kept = options.rolling === undefined ? faults(options) : rolling(options.rolling, options);
  // Now, even if a closed part still holds the event loop.
  process.exit((await kept) ? 0 : 1);
});
