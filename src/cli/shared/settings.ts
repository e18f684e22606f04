import { fromEnvironment } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { logLevels } from '../../util/log-level.ts';
import { CliError } from './cli-error.ts';
import { exitCode } from './io.ts';
import { type OptionTable, parsePort, portRule } from './parse-options.ts';

/** What options and environment variables set in place of the configuration file; `undefined` is not set. */
export interface Overrides {
  readonly port?: number | undefined;
  readonly adminPort?: number | undefined;
  readonly logLevel?: Config['log']['level'] | undefined;
}

const configVariable = 'COUNTERSIGN_CONFIG';

/** Not `COUNTERSIGN_PORT`: Kubernetes sets that to an address for a Service with the name countersign. */
const variables = {
  port: 'COUNTERSIGN_PROXY_PORT',
  'admin-port': 'COUNTERSIGN_ADMIN_PORT',
  'log-level': 'COUNTERSIGN_LOG_LEVEL',
} as const;

type Setting = keyof typeof variables;

/** Options of `serve`. */
export const settingOptions = {
  port: {
    type: 'string',
    value: 'PORT',
    description: `Port of the proxy, in place of proxy.port (environment variable ${variables.port}); 0 picks a free port, in the demo for all ports that no option sets`,
  },
  'admin-port': {
    type: 'string',
    value: 'PORT',
    description: `Port for the status page, metrics and health, in place of admin.port (${variables['admin-port']})`,
  },
  'log-level': {
    type: 'string',
    value: 'LEVEL',
    description: `${logLevels.join(', ')}; in place of log.level (${variables['log-level']})`,
  },
} as const satisfies OptionTable;

/**
 * The file of `--config`, else of the environment variable. `undefined`: neither is given.
 *
 * @throws CliError for an empty variable: a deployment that lost its file must not run the demo in its place
 */
export function configFileOf(option: string | undefined, lookUp = fromEnvironment): string | undefined {
  const file = option ?? lookUp(configVariable);
  if (file === '' && option === undefined)
    throw new CliError(`${configVariable} is empty: set it to a file, or unset it`, exitCode.usage);
  return file;
}

/** An option has precedence over its environment variable, which has precedence over the file. */
export function readOverrides(
  options: Readonly<Partial<Record<Setting, string>>>,
  lookUp = fromEnvironment,
): { readonly overrides: Overrides } | { readonly problems: readonly string[] } {
  const problems: string[] = [];
  const read = <T>(name: Setting, parse: (text: string) => T | undefined, rule: string): T | undefined => {
    const set = lookUp(variables[name]);
    // An empty variable counts as not set.
    const text = options[name] ?? (set === '' ? undefined : set);
    const value = text === undefined ? undefined : parse(text);
    if (text !== undefined && value === undefined) {
      problems.push(`${options[name] === undefined ? variables[name] : `--${name}`} ${rule}`);
    }
    return value;
  };
  const port = read('port', parsePort, portRule);
  const adminPort = read('admin-port', parsePort, portRule);
  const levelOf = (text: string) => logLevels.find((level) => level === text);
  const logLevel = read('log-level', levelOf, `must be one of ${logLevels.join(', ')}`);
  return problems.length > 0 ? { problems } : { overrides: { port, adminPort, logLevel } };
}

export function withOverrides(config: Config, { port, adminPort, logLevel }: Overrides): Config {
  return {
    ...config,
    proxy: { ...config.proxy, port: port ?? config.proxy.port },
    admin: { ...config.admin, port: adminPort ?? config.admin.port },
    log: { ...config.log, level: logLevel ?? config.log.level },
  };
}
