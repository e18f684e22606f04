import { loadConfig } from '../../config/load.ts';
import type { Config, VaultConfig } from '../../config/schema.ts';
import { type EnvLookup, fromEnvironment } from '../../config/variables.ts';
import { builtInOperations } from '../../gateway/operations.ts';
import { Secret } from '../../secret.ts';
import { CliError, exitCode } from './cli-error.ts';
import type { OptionValues } from './command.ts';
import { validConfig } from './config-file.ts';

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
