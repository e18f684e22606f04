import { fromEnvironment, type LoadedConfig, loadConfig, type ValidConfig } from '../../config/load.ts';
import type { Config, VaultConfig } from '../../config/schema.ts';
import type { EnvLookup } from '../../config/yaml.ts';
import { builtInOperations } from '../../gateway/operations.ts';
import { Secret } from '../../secret.ts';
import { logLevels } from '../../util/log-level.ts';
import { CliError, exitCode, formatProblems, messageOf } from './cli-error.ts';
import { type OptionValues, oneOf, port } from './command.ts';

const configVariable = 'COUNTERSIGN_CONFIG';

/** Also to an empty text. */
export function isConfigVariableSet(): boolean {
  return fromEnvironment(configVariable) !== undefined;
}

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

/** @throws CliError with the problems of an invalid file */
export function validConfig(file: string, loaded: LoadedConfig): ValidConfig {
  if ('config' in loaded) return loaded;
  throw new CliError(formatProblems(file, loaded.problems).join('\n'), exitCode.usage, true);
}

/** Not `COUNTERSIGN_PORT`: Kubernetes sets that to an address for a Service with the name countersign. */
const variables = {
  port: 'COUNTERSIGN_PROXY_PORT',
  'admin-port': 'COUNTERSIGN_ADMIN_PORT',
  'log-level': 'COUNTERSIGN_LOG_LEVEL',
} as const;

/** What options and environment variables set in place of the configuration file. */
export const settingOptions = {
  'port PORT': `Port of the proxy, in place of proxy.port (environment variable ${variables.port}); 0 picks a free port, in the demo for all ports that no option sets`,
  'admin-port PORT': `Port for the status page, metrics and health, in place of admin.port (${variables['admin-port']})`,
  'log-level LEVEL': `${logLevels.join(', ')}; in place of log.level (${variables['log-level']})`,
};

const logLevel = oneOf(logLevels, `must be one of ${logLevels.join(', ')}`);

/** `undefined` is not set. */
export type Overrides = Partial<
  Extract<ReturnType<typeof readOverrides>, { overrides: unknown }>['overrides']
>;

/** An option has precedence over its environment variable, which has precedence over the file. */
export function readOverrides(
  options: Readonly<Partial<Record<keyof typeof variables, string | undefined>>>,
  lookUp = fromEnvironment,
) {
  const problems: string[] = [];
  const read = <T>(name: keyof typeof variables, parse: (text: string, name: string) => T): T | undefined => {
    const { [name]: option } = options;
    const variable = variables[name];
    const set = lookUp(variable);
    // An empty variable counts as not set.
    const text = option ?? (set === '' ? undefined : set);
    try {
      return text === undefined ? undefined : parse(text, option === undefined ? variable : `--${name}`);
    } catch (error) {
      problems.push(messageOf(error));
      return undefined;
    }
  };
  const overrides = {
    port: read('port', port),
    adminPort: read('admin-port', port),
    logLevel: read('log-level', logLevel),
  };
  return problems.length > 0 ? { problems } : { overrides };
}

export function withOverrides(config: Config, { port, adminPort, logLevel }: Overrides): Config {
  return {
    ...config,
    proxy: { ...config.proxy, port: port ?? config.proxy.port },
    admin: { ...config.admin, port: adminPort ?? config.admin.port },
    log: { ...config.log, level: logLevel ?? config.log.level },
  };
}

/** Options of every command that reads keys: an operator has another token than the pod, and not its files. */
export const loginOptions = {
  'token-file FILE': 'Authenticate to Vault with this token file instead of the configured method',
  'token-env NAME': 'Authenticate to Vault with the token in this environment variable',
  'ca-file FILE': 'Verify the certificate of Vault with this CA instead of keys.vault.caFile',
};

type LoginValues = Partial<OptionValues<typeof loginOptions>>;

/** Whether the operator gave a token. The command may then run far from the pod's files. */
export function hasOwnToken(values: LoginValues): boolean {
  return values['token-file'] !== undefined || values['token-env'] !== undefined;
}

/** Fits every field whose value a command does not use. */
const unusedValue = '0'.repeat(64);

/** Looks up variables. Those of credentials that the command does not use need not be set. */
export function lookUpUsed(values: LoginValues): EnvLookup {
  const unused = hasOwnToken(values)
    ? /^(callers\[\d+\]\.credentials|keys\.vault\.auth)\b/
    : /^callers\[\d+\]\.credentials\b/;
  return (name, path) => fromEnvironment(name) ?? (unused.test(path) ? unusedValue : undefined);
}

/** The configuration for a command that only reads keys: the other files of the pod need not exist here. */
export async function loadWithLogin(file: string, values: LoginValues): Promise<Config> {
  const loaded = await loadConfig(file, builtInOperations, { skipFiles: true, lookUp: lookUpUsed(values) });
  return withLogin(validConfig(file, loaded).config, values);
}

/**
 * The configuration with the token and the CA of the command line, if given.
 *
 * @throws CliError for options that exclude each other, or a variable that is not set
 */
export function withLogin(config: Config, values: LoginValues): Config {
  const auth = tokenAuth(values);
  const caFile = values['ca-file'];
  if (config.keys.source === 'directory') return config;
  const vault = {
    ...config.keys.vault,
    ...(auth === undefined ? {} : { auth }),
    ...(caFile === undefined ? {} : { caFile }),
  };
  return { ...config, keys: { ...config.keys, vault } };
}

/** A token in the environment is used only if an option names it. */
function tokenAuth(values: LoginValues): VaultConfig['auth'] | undefined {
  const { 'token-file': tokenFile, 'token-env': name } = values;
  if (tokenFile !== undefined && name !== undefined) {
    throw new CliError('--token-file and --token-env are mutually exclusive', exitCode.usage);
  }
  if (tokenFile !== undefined) return { method: 'token', tokenFile };
  if (name === undefined) return undefined;
  const token = fromEnvironment(name) ?? '';
  if (token === '') throw new CliError(`the environment variable ${name} is not set`, exitCode.usage);
  return { method: 'token', token: new Secret(token) };
}
