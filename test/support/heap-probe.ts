import type { CountersignProcess } from './process.ts';
import { until } from './until.ts';

/** Runs in the measured process: on SIGUSR2 it collects all garbage and reports what is left. */
const program = `
  process.on('SIGUSR2', () => {
    gc();
    process.stderr.write('HEAP ' + process.memoryUsage().heapUsed + '\\n');
  });
`;

/** For a process whose heap {@link heapOf} measures. */
export const heapProbeOptions = [
  '--expose-gc',
  '--import',
  `data:text/javascript,${encodeURIComponent(program)}`,
];

/** What a process holds without its garbage, in MB. */
export async function heapOf({ signal, stderr }: CountersignProcess): Promise<number> {
  const reports = (): string[] => Array.from(stderr().matchAll(/HEAP (\d+)/g), ([, bytes = '']) => bytes);
  const before = reports().length;
  signal('SIGUSR2');
  await until(() => reports().length > before);
  return Number(reports().at(-1)) / 1e6;
}
