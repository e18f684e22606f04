import { fromEnvironment, type LoadedConfig, loadConfig } from '../config/load.ts';
import { builtInOperations } from '../gateway/operations.ts';
import type { Signals } from '../server/signals.ts';
import { exitCode, type Io } from './shared/io.ts';
import { optionsHelp, parseOptions } from './shared/parse-options.ts';
import { runService } from './shared/run-service.ts';
import { configFileOf, readOverrides, settingOptions, withOverrides } from './shared/settings.ts';

const options = {
  config: {
    type: 'string',
    value: 'FILE',
    description: 'Configuration file (COUNTERSIGN_CONFIG; default: the demo, see countersign demo --help)',
  },
  ...settingOptions,
} as const;

const usage = `Usage: countersign serve [--config FILE] [--port PORT] [--admin-port PORT] [--log-level LEVEL]

Runs the proxy until SIGTERM or SIGINT. SIGHUP reloads the configuration. An option has precedence over its
environment variable (in parentheses), and that over the file.

${optionsHelp(options)}

Exit codes: 0 shut down gracefully, 1 failure or shutdown timeout, 2 invalid configuration or usage.`;

/** Runs until a signal. Without a file, all options are those of the demo. @returns the exit code */
export async function serve(argv: readonly string[], io: Io, signals: Signals): Promise<number> {
  const isFileGiven = argv.some((argument) => /^--config(=|$)/.test(argument)) || configFileOf(undefined);
  if (!isFileGiven && !argv.includes('--help')) {
    const { demo } = await import('./demo/demo.ts');
    return demo(argv, io, signals, 'serve');
  }
  const parsed = parseOptions('serve', argv, options, usage, io);
  if ('exit' in parsed) return parsed.exit;
  const read = readOverrides(parsed.values);
  if ('problems' in read) {
    for (const problem of read.problems) io.err(`countersign serve: ${problem}`);
    return exitCode.usage;
  }
  const file = configFileOf(parsed.values.config) ?? '';
  const load = async (): Promise<LoadedConfig> => {
    const loaded = await loadConfig(file, builtInOperations, { lookUp: fromEnvironment });
    return 'config' in loaded ? { ...loaded, config: withOverrides(loaded.config, read.overrides) } : loaded;
  };
  return runService({ file, load }, io, signals);
}
