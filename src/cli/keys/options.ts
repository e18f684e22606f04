import { fromEnvironment } from '../../config/load.ts';
import type { Config, EnvironmentConfig, KeysConfig, VaultConfig } from '../../config/schema.ts';
import { isIdentifier } from '../../identifiers.ts';
import type { LoginRef } from '../../keys/key-source.ts';
import type { VaultAdmin } from '../../keys/vault/admin.ts';
import { Secret } from '../../secret.ts';
import { CliError } from '../shared/cli-error.ts';
import { openStore } from '../shared/inventory.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { withConfig } from '../shared/with-config.ts';

/** Options of every subcommand of `keys`. */
export const commonOptions = {
  config: { type: 'string' },
  environment: { type: 'string' },
  login: { type: 'string' },
  'token-file': { type: 'string' },
  'token-env': { type: 'string' },
  json: { type: 'boolean', default: false },
} as const;

export const commonUsage = `  --config FILE       the configuration that the proxy runs with; files it names need not be here
  --environment NAME  one of its environments
  --login LOGIN       the login whose keys are meant
  --token-file FILE   log in to Vault with the token in this file, not as the configuration says
  --token-env NAME    the same, with the token in this environment variable
  --json              print JSON
  --help              print this`;

export interface CommonValues {
  readonly config?: string;
  readonly environment?: string;
  readonly login?: string;
  readonly 'token-file'?: string;
  readonly 'token-env'?: string;
  readonly json: boolean;
}

/** Where a subcommand works. */
export interface KeysContext {
  readonly config: Config;
  /** As configured, with the token of the command line where there is one. */
  readonly keys: KeysConfig;
  readonly environment: string;
  readonly settings: EnvironmentConfig;
  readonly json: boolean;
}

/** Does a subcommand's work in the configuration that the options name. @throws Stop for wrong options. */
export async function withKeysContext(
  values: CommonValues,
  io: Io,
  work: (place: KeysContext) => Promise<number>,
): Promise<number> {
  const { config: file, environment } = values;
  if (file === undefined || environment === undefined) {
    throw new CliError('--config FILE and --environment NAME are needed', exitCode.usage);
  }
  const atConfig = (config: Config): Promise<number> => {
    const settings = config.environments[environment];
    if (settings === undefined) {
      const names = Object.keys(config.environments).join(', ');
      throw new CliError(`there is no environment "${environment}", only: ${names}`, exitCode.usage);
    }
    return work({ config, keys: withToken(config.keys, values), environment, settings, json: values.json });
  };
  return withConfig(file, io, atConfig, { skipFiles: true });
}

/** @throws Stop where no login is named, or one that cannot be. */
export function loginRefOf({ environment }: KeysContext, { login }: CommonValues): LoginRef {
  if (login === undefined) throw new CliError('--login LOGIN is needed', exitCode.usage);
  if (!isIdentifier(login)) {
    throw new CliError('a login is 1 to 128 of A-Z a-z 0-9 . _ ~ @ -', exitCode.usage);
  }
  return { environment, login };
}

/** Writing is for keys in Vault. @throws Stop for a directory of keys. */
export async function withVaultAdmin(
  place: KeysContext,
  work: (store: VaultAdmin) => Promise<number>,
): Promise<number> {
  if (place.keys.source === 'directory') {
    throw new CliError(
      `the keys of this configuration are files in ${place.keys.directory}, which are managed outside of Countersign: change them where they come from`,
      exitCode.usage,
    );
  }
  const store = openStore(place.keys.vault);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

function withToken(keys: KeysConfig, values: CommonValues): KeysConfig {
  const auth = tokenAuth(values);
  if (auth === undefined || keys.source === 'directory') return keys;
  return { ...keys, vault: { ...keys.vault, auth } };
}

/** A token of the environment is taken only when it is asked for by name. */
function tokenAuth(values: CommonValues): VaultConfig['auth'] | undefined {
  const { 'token-file': tokenFile, 'token-env': name } = values;
  if (tokenFile !== undefined && name !== undefined) {
    throw new CliError('--token-file and --token-env exclude each other', exitCode.usage);
  }
  if (tokenFile !== undefined) return { method: 'token', tokenFile };
  if (name === undefined) return undefined;
  const token = fromEnvironment(name) ?? '';
  if (token === '') throw new CliError(`the environment variable ${name} is not set`, exitCode.usage);
  return { method: 'token', token: new Secret(token) };
}
