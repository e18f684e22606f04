import { fromEnvironment, loadConfig } from '../config/load.ts';
import { builtInOperations } from '../gateway/operations.ts';
import type { Signals } from '../server/signals.ts';
import { demo } from './demo/demo.ts';
import type { Io } from './shared/io.ts';
import { optionsHelp, parseOptions } from './shared/parse-options.ts';
import { runService } from './shared/run-service.ts';

const options = {
  config: {
    type: 'string',
    value: 'FILE',
    description: 'Configuration file (default: the demo; its options: countersign demo --help)',
  },
} as const;

const usage = `Usage: countersign serve [--config FILE]

Runs the proxy until SIGTERM or SIGINT. SIGHUP reloads the configuration.

${optionsHelp(options)}

Exit codes: 0 shut down gracefully, 1 failure or shutdown timeout, 2 invalid configuration or usage.`;

/** Runs until a signal. Without `--config`, all options are those of the demo. @returns the exit code */
export async function serve(argv: readonly string[], io: Io, signals: Signals): Promise<number> {
  const hasFile = argv.some((argument) => argument === '--config' || argument.startsWith('--config='));
  if (!hasFile && !argv.includes('--help')) return demo(argv, io, signals);
  const parsed = parseOptions('serve', argv, options, usage, io);
  if ('exit' in parsed) return parsed.exit;
  const { config: file = '' } = parsed.values;
  const load = () => loadConfig(file, builtInOperations, { lookUp: fromEnvironment });
  const portOptions = { proxy: `proxy.port in ${file}`, admin: `admin.port in ${file}` };
  return runService({ file, load, portOptions }, io, signals);
}
