import type { Cost } from './cpu-time.ts';
import { until } from './until.ts';

/** Runs in the measured process: reports its CPU time and the longest delay of its event loop since the last call. */
const program = `
  import { createServer } from 'node:http';
  import { monitorEventLoopDelay } from 'node:perf_hooks';
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  let before = process.cpuUsage();
  const server = createServer((request, response) => {
    const { user, system } = process.cpuUsage(before);
    response.end(JSON.stringify({ cpu: (user + system) / 1000, delay: delay.max / 1e6 }));
    delay.reset();
    before = process.cpuUsage();
  });
  server.listen(0, '127.0.0.1', () => process.stderr.write('PROBE ' + server.address().port + '\\n'));
  server.unref();
`;

/** For a process that {@link openProbe} measures. */
export const probeOptions = ['--import', `data:text/javascript,${encodeURIComponent(program)}`];

/** Measures what a process does while `work` runs. @param stderr of a process with {@link probeOptions} */
export async function openProbe(
  stderr: () => string,
): Promise<(work: () => Promise<unknown>) => Promise<Cost>> {
  const port = (): string | undefined => /PROBE (\d+)/.exec(stderr())?.[1];
  await until(() => port() !== undefined);
  const sample = async (): Promise<{ cpu: number; delay: number }> =>
    JSON.parse(await (await fetch(`http://127.0.0.1:${port()}`)).text());
  return async (work) => {
    await sample();
    await work();
    const { cpu, delay } = await sample();
    // On a busy machine the loop also waits for the processor.
    return { cpu, hold: Math.min(cpu, delay) };
  };
}
