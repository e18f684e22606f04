import { type LoadOptions, loadConfig } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { builtInOperations } from '../../gateway/operations.ts';
import { formatProblems } from './config-report.ts';
import { demoConfigFile, generateDemoKeys } from './demo.ts';
import { exitCode, type Io } from './io.ts';

/**
 * Does a command's work with a configuration: the file's, or without one the embedded default
 * with throw-away keys, which are gone afterwards. Problems of the file are printed; exit code 2.
 */
export async function withConfig(
  file: string | undefined,
  io: Io,
  work: (config: Config) => Promise<number>,
  options: LoadOptions = {},
): Promise<number> {
  if (file !== undefined) return withFile(file, options, io, work);
  const keys = await generateDemoKeys();
  try {
    return await withFile(demoConfigFile, { ...options, lookUp: (name) => keys.variables[name] }, io, work);
  } finally {
    keys.remove();
  }
}

async function withFile(
  file: string,
  options: LoadOptions,
  io: Io,
  work: (config: Config) => Promise<number>,
): Promise<number> {
  const read = await loadConfig(file, builtInOperations, options);
  if ('config' in read) return work(read.config);
  for (const line of formatProblems(file, read.problems)) io.err(line);
  return exitCode.usage;
}
