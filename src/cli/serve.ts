import { type LoadedConfig, loadConfig } from '../config/load.ts';
import { builtInOperations } from '../gateway/operations.ts';
import type { Signals } from '../server/signals.ts';
import { withheldMessage } from './shared/cli-error.ts';
import { command, optionsHelp, type Run } from './shared/command.ts';
import { configFileOf, isConfigVariableSet, settingOptions, withSettings } from './shared/config-file.ts';
import { runService } from './shared/run-service.ts';

const options = {
  'config FILE': 'Configuration file (COUNTERSIGN_CONFIG; default: the demo, see countersign demo --help)',
  ...settingOptions,
};

const usage = `Usage: countersign serve [--config FILE] [--port PORT] [--admin-port PORT] [--log-level LEVEL]

Runs the proxy until SIGTERM or SIGINT. SIGHUP reloads the configuration. An option has precedence over its
environment variable (in parentheses), and that over the file.

${optionsHelp(options)}

Exit codes: 0 shut down gracefully, 1 failure or shutdown timeout, 2 invalid configuration or usage.`;

const serveFile = command(
  { name: 'serve', options, usage, describe: withheldMessage, withoutHint: true },
  async ({ values }, _io, signals: Signals) => {
    const file = configFileOf(values.config) ?? '';
    const load = async (): Promise<LoadedConfig> => {
      const loaded = await loadConfig(file, builtInOperations);
      return 'config' in loaded ? { ...loaded, config: withSettings(loaded.config, values) } : loaded;
    };
    return runService({ file, load }, signals);
  },
);

/** Runs until a signal. Without a file, all options are those of the demo. */
export const serve: Run = async (argv, io, signals) => {
  const isFileGiven = argv.some((argument) => /^--config(=|$)/.test(argument)) || isConfigVariableSet();
  if (isFileGiven || argv.includes('--help')) return serveFile(argv, io, signals);
  const { demoAs } = await import('./demo/demo.ts');
  return demoAs('serve')(argv, io, signals);
};
