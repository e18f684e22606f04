import type { LoadedConfig } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { formatProblems } from './cli-error.ts';
import { exitCode, type Io } from './io.ts';

/** Runs a command with a configuration. Prints the problems of an invalid one; exit code 2. */
export function withConfig(
  file: string,
  loaded: LoadedConfig,
  io: Io,
  work: (config: Config) => Promise<number>,
): Promise<number> | number {
  if ('config' in loaded) return work(loaded.config);
  for (const line of formatProblems(file, loaded.problems)) io.err(line);
  return exitCode.usage;
}
