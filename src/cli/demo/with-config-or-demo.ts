import { type LoadOptions, loadConfig } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { builtInOperations } from '../../gateway/operations.ts';
import type { Io } from '../shared/io.ts';
import { withConfig } from '../shared/with-config.ts';
import { defaultGatewayUrl, demoConfigFile, loadDemoConfig, loadDemoScenario } from './config.ts';
import { generateDemoKeys } from './keys.ts';
import { findRunningDemo, readReadyFile, settingsOf } from './running.ts';

/**
 * As {@link withConfig}, with the configuration of a file, or without one with that of the demo: of the running one, or
 * else with throwaway keys, which are deleted afterwards.
 *
 * @param options `readyFile`: that of the demo to use; default: the one started last
 */
export async function withConfigOrDemo(
  file: string | undefined,
  io: Io,
  work: (config: Config) => Promise<number>,
  { readyFile, ...options }: LoadOptions & { readonly readyFile?: string | undefined } = {},
): Promise<number> {
  if (file !== undefined)
    return withConfig(file, await loadConfig(file, builtInOperations, options), io, work);
  const running = readyFile === undefined ? findRunningDemo() : readReadyFile(readyFile);
  if (running !== undefined) {
    io.err(`Using the keys and the gateway simulator of the running demo at ${running.proxyUrl}.`);
    return withConfig(demoConfigFile, await loadDemoConfig(running, await settingsOf(running)), io, work);
  }
  const keys = await generateDemoKeys(Object.keys((await loadDemoScenario()).logins));
  try {
    const variables = { keyDirectory: keys.directory, gatewayUrl: defaultGatewayUrl };
    return await withConfig(demoConfigFile, await loadDemoConfig(variables), io, work);
  } finally {
    keys.remove();
  }
}
