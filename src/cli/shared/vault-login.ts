import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { loadConfig } from '../../config/load.ts';
import { pathText } from '../../config/problem.ts';
import { vault as vaultSchema } from '../../config/schema/keys.ts';
import type { Config, VaultConfig } from '../../config/schema.ts';
import { type EnvLookup, fromEnvironment, placeholder } from '../../config/variables.ts';
import { builtInOperations } from '../../gateway/operations.ts';
import { Secret } from '../../secret.ts';
import { CliError, exitCode } from './cli-error.ts';
import { fromVariable, type OptionValues } from './command.ts';
import { validConfig } from './config-file.ts';

/** Options of every command that reads keys: an operator has another token than the pod, and not its files. */
export const loginOptions = {
  'token-file FILE': 'Authenticate to Vault with this token file instead of the configured method',
  'ca-file FILE': 'Verify the certificate of Vault with this CA instead of keys.vault.caFile',
};

/** The same for a command that also goes where the `vault` program goes. */
export const vaultOptions = {
  ...loginOptions,
  'token-file FILE':
    'Authenticate to Vault with this token file (default: VAULT_TOKEN, ~/.vault-token, the configured method)',
  'address URL': fromVariable(
    'VAULT_ADDR',
    'Address of Vault in place of keys.vault.address (VAULT_ADDR)',
    valueOf('address'),
  ),
  'namespace NAME': fromVariable(
    'VAULT_NAMESPACE',
    'Namespace in place of keys.vault.namespace (VAULT_NAMESPACE)',
    valueOf('namespace'),
  ),
  'ca-file FILE': fromVariable(
    'VAULT_CACERT',
    'CA of the certificate of Vault in place of keys.vault.caFile (VAULT_CACERT)',
    valueOf('caFile'),
  ),
};

/** As in the configuration; a slash at the end, as `vault namespace list` prints it, does not count. */
function valueOf(field: 'address' | 'namespace' | 'caFile') {
  return (text: string, option: string): string | undefined => {
    const parsed = vaultSchema.shape[field].safeParse(text.replace(/\/$/, ''));
    if (parsed.success) return parsed.data;
    throw new CliError(`${option} ${parsed.error.issues[0]?.message}`, exitCode.usage);
  };
}

type LoginValues = Partial<OptionValues<typeof vaultOptions>>;

/** What an operator has in place of fields of `keys.vault`. */
interface VaultLogin {
  readonly address?: string | undefined;
  readonly namespace?: string | undefined;
  readonly caFile?: string | undefined;
  readonly auth?: VaultConfig['auth'] | undefined;
}

/** That of the options. */
export function optionLogin(values: LoginValues): VaultLogin {
  const { address, namespace, 'ca-file': caFile, 'token-file': tokenFile } = values;
  const auth = tokenFile === undefined ? undefined : ({ method: 'token', tokenFile } as const);
  return { address, namespace, caFile, auth };
}

/** The token that the `vault` program would use: that of its variable, or else of `vault login`. */
export function vaultToken(): { readonly auth: VaultConfig['auth']; readonly source: string } | undefined {
  const token = fromEnvironment('VAULT_TOKEN') ?? '';
  if (token !== '') return { auth: { method: 'token', token: new Secret(token) }, source: 'VAULT_TOKEN' };
  const tokenFile = join(fromEnvironment('HOME') ?? '/', '.vault-token');
  return existsSync(tokenFile) ? { auth: { method: 'token', tokenFile }, source: tokenFile } : undefined;
}

/** Looks up variables. Those of credentials that the command does not use need not be set. */
export function lookUpUsed({ auth }: VaultLogin): EnvLookup {
  const unused =
    auth === undefined
      ? /^callers\[\d+\]\.credentials\b/
      : /^(callers\[\d+\]\.credentials|keys\.vault\.auth)\b/;
  return (name, path) =>
    fromEnvironment(name) ?? (unused.test(pathText(path)) ? placeholder(name) : undefined);
}

/** The configuration for a command that only reads keys: the other files of the pod need not exist here. */
export async function loadWithLogin(file: string, login: VaultLogin): Promise<Config> {
  const loaded = await loadConfig(file, builtInOperations, { skipFiles: true, lookUp: lookUpUsed(login) });
  return withLogin(validConfig(file, loaded).config, login);
}

/** The configuration with what the operator has in place of its fields. */
export function withLogin(config: Config, login: VaultLogin): Config {
  if (config.keys.source === 'directory') return config;
  const own = config.keys.vault;
  const vault = {
    ...own,
    address: login.address ?? own.address,
    namespace: login.namespace ?? own.namespace,
    caFile: login.caFile ?? own.caFile,
    auth: login.auth ?? own.auth,
  };
  return { ...config, keys: { ...config.keys, vault } };
}
