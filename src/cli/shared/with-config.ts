import { type LoadOptions, loadConfig } from '../../config/load.ts';
import type { Problem } from '../../config/problem.ts';
import type { Config } from '../../config/schema.ts';
import { builtInOperations } from '../../gateway/operations.ts';
import { demoConfigFile, loadDemoConfig, loadDemoScenario } from '../demo/config.ts';
import { generateDemoKeys } from '../demo/keys.ts';
import { findRunningDemo, readReadyFile, settingsOf } from '../demo/running.ts';
import { formatProblems } from './config-report.ts';
import { exitCode, type Io } from './io.ts';

/** Where the simulator of a demo listens by default. */
const defaultGatewayUrl = 'http://127.0.0.1:8090';

/**
 * Runs a command with the configuration of a file, or without one with that of the demo: of the running one, or else
 * with throwaway keys, which are deleted afterwards. Prints the problems of an invalid file; exit code 2.
 *
 * @param options `readyFile`: that of the demo to use; default: the one started last
 */
export async function withConfig(
  file: string | undefined,
  io: Io,
  work: (config: Config) => Promise<number>,
  { readyFile, ...options }: LoadOptions & { readonly readyFile?: string | undefined } = {},
): Promise<number> {
  if (file !== undefined)
    return withLoaded(file, await loadConfig(file, builtInOperations, options), io, work);
  const running = readyFile === undefined ? findRunningDemo() : readReadyFile(readyFile);
  if (running !== undefined) {
    io.err(`Using the keys and the gateway simulator of the running demo at ${running.proxyUrl}.`);
    return withLoaded(demoConfigFile, await loadDemoConfig(running, await settingsOf(running)), io, work);
  }
  const keys = await generateDemoKeys(Object.keys((await loadDemoScenario()).logins));
  try {
    const variables = { keyDirectory: keys.directory, gatewayUrl: defaultGatewayUrl };
    return await withLoaded(demoConfigFile, await loadDemoConfig(variables), io, work);
  } finally {
    keys.remove();
  }
}

function withLoaded(
  file: string,
  loaded: { config: Config } | { problems: readonly Problem[] },
  io: Io,
  work: (config: Config) => Promise<number>,
): Promise<number> | number {
  if ('config' in loaded) return work(loaded.config);
  for (const line of formatProblems(file, loaded.problems)) io.err(line);
  return exitCode.usage;
}
