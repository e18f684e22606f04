import { type LoadOptions, loadConfig } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { builtInOperations } from '../../gateway/operations.ts';
import { formatProblems } from './config-report.ts';
import { demoConfigFile, generateDemoKeys } from './demo.ts';
import { exitCode, type Io } from './io.ts';

/**
 * Runs a command with the configuration of a file, or without one with the embedded default and throwaway keys,
 * which are deleted afterwards. Prints the problems of an invalid file; exit code 2.
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
  const loaded = await loadConfig(file, builtInOperations, options);
  if ('config' in loaded) return work(loaded.config);
  for (const line of formatProblems(file, loaded.problems)) io.err(line);
  return exitCode.usage;
}
