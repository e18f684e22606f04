import type { LoadedConfig, ValidConfig } from '../../config/load.ts';
import type { Problem } from '../../config/problem.ts';
import { logLevels } from '../../config/schema/values.ts';
import type { Config } from '../../config/schema.ts';
import { fromEnvironment } from '../../config/variables.ts';
import { CliError, exitCode } from './cli-error.ts';
import { fromVariable, type OptionValues, oneOf, port } from './command.ts';

const configVariable = 'COUNTERSIGN_CONFIG';

/**
 * The file of `--config`, else of the environment variable. `undefined`: neither is given.
 *
 * @throws CliError for an empty variable: what lost its file must not check or explain another one in its place
 */
export function configFileOf(option: string | undefined, lookUp = fromEnvironment): string | undefined {
  const file = option ?? lookUp(configVariable);
  if (file === '' && option === undefined)
    throw new CliError(`${configVariable} is empty: set it to a file, or unset it`, exitCode.usage);
  return file;
}

/** @throws CliError with the problems of an invalid file */
export function validConfig(file: string, loaded: LoadedConfig): ValidConfig {
  if ('config' in loaded) return loaded;
  throw new CliError(formatProblems(file, loaded.problems).join('\n'), exitCode.usage, true);
}

/** The problems of a configuration file as lines to print: file and line, path, message; then their number. */
export function formatProblems(file: string, problems: readonly Problem[], noun = 'problem'): string[] {
  const places = problems.map(({ line }) => (line === 0 ? `${file}:` : `${file}:${line}:`));
  const width = Math.max(...places.map(({ length }) => length));
  return [
    ...problems.map(({ path, message }, index) =>
      [(places[index] ?? '').padEnd(width), ...(path === '' ? [] : [`${path}:`]), message].join(' '),
    ),
    problems.length === 1 ? `1 ${noun}` : `${problems.length} ${noun}s`,
  ];
}

/** Not `COUNTERSIGN_PORT`: Kubernetes sets that to an address for a Service with the name countersign. */
const variables = {
  port: 'COUNTERSIGN_PROXY_PORT',
  adminPort: 'COUNTERSIGN_ADMIN_PORT',
  logLevel: 'COUNTERSIGN_LOG_LEVEL',
};

/**
 * The port that the environment variable sets in place of `admin.port`. `undefined`: none.
 *
 * @throws CliError for what is no port
 */
export function adminPortVariable(lookUp = fromEnvironment): number | undefined {
  const text = lookUp(variables.adminPort) ?? '';
  return text === '' ? undefined : port(text, variables.adminPort);
}

/** What options and environment variables set in place of the configuration file. */
export const settingOptions = {
  'port PORT': fromVariable(
    variables.port,
    `Port of the proxy, in place of proxy.port (environment variable ${variables.port}); 0 picks a free port, in the demo for all ports that no option sets`,
    port,
  ),
  'admin-port PORT': fromVariable(
    variables.adminPort,
    `Port for the status page, metrics and health, in place of admin.port (${variables.adminPort})`,
    port,
  ),
  'log-level LEVEL': fromVariable(
    variables.logLevel,
    `${logLevels.join(', ')}; in place of log.level (${variables.logLevel})`,
    oneOf(logLevels, `must be one of ${logLevels.join(', ')}`),
  ),
};

export type Settings = OptionValues<typeof settingOptions>;

export function withSettings(config: Config, settings: Partial<Settings>): Config {
  return {
    ...config,
    proxy: { ...config.proxy, port: settings.port ?? config.proxy.port },
    admin: { ...config.admin, port: settings['admin-port'] ?? config.admin.port },
    log: { ...config.log, level: settings['log-level'] ?? config.log.level },
  };
}
