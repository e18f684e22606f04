import { type ReadOptions, readConfig } from '../config/read.ts';
import type { Config } from '../config/shape.ts';
import { builtInOperations } from '../gateway/operations.ts';
import { embeddedConfig, makeEmbeddedKeys } from './embedded.ts';
import { exitCode, type Io } from './io.ts';
import { report } from './report.ts';

/**
 * Does a command's work with a configuration: the file's, or without one the embedded default
 * with throw-away keys, which are gone afterwards. Problems of the file are printed; exit code 2.
 */
export async function withConfig(
  file: string | undefined,
  io: Io,
  work: (config: Config) => Promise<number>,
  options: ReadOptions = {},
): Promise<number> {
  if (file !== undefined) return withFile(file, options, io, work);
  const keys = await makeEmbeddedKeys();
  try {
    return await withFile(embeddedConfig, { ...options, lookUp: (name) => keys.variables[name] }, io, work);
  } finally {
    keys.remove();
  }
}

async function withFile(
  file: string,
  options: ReadOptions,
  io: Io,
  work: (config: Config) => Promise<number>,
): Promise<number> {
  const read = await readConfig(file, builtInOperations, options);
  if ('config' in read) return work(read.config);
  for (const line of report(file, read.problems)) io.err(line);
  return exitCode.usage;
}
