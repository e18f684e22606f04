import { loadavg } from 'node:os';
import { runCommand } from '../support/command.ts';
import { separateCores } from './cores.ts';
import { readOptions, usage } from './options.ts';
import { report } from './report.ts';
import { runWay } from './run.ts';

await runCommand({ readOptions, usage }, async (options) => {
  const cores = separateCores();
  console.log(`Seed ${options.seed}, Node ${process.version}, ${cores.description}\n`);
  const broken: string[] = [];
  for (const way of options.only) {
    const result = await runWay(way, options, cores);
    if (result.broken.length > 0) broken.push(way);
    console.log(`${report(result)}load of the machine: ${loadavg()[0]?.toFixed(1)}\n`);
  }
  const count = options.only.length;
  console.log(broken.length === 0 ? `held: ${count} of ${count} ways` : `broken: ${broken.join(', ')}`);
  process.exit(broken.length === 0 ? 0 : 1);
});
