import { loadConfig } from '../../config/load.ts';
import type { Config, EnvironmentConfig, KeysConfig } from '../../config/schema.ts';
import { builtInOperations } from '../../gateway/operations.ts';
import { isIdentifier } from '../../identifiers.ts';
import type { LoginRef } from '../../keys/key-source.ts';
import type { VaultAdmin } from '../../keys/vault/admin.ts';
import { CliError } from '../shared/cli-error.ts';
import { createAdmin } from '../shared/inventory.ts';
import { exitCode, type Io } from '../shared/io.ts';
import type { OptionValues } from '../shared/parse-options.ts';
import { configFileOf } from '../shared/settings.ts';
import { loginOptions, lookUpUsed, withLogin } from '../shared/vault-login.ts';
import { withConfig } from '../shared/with-config.ts';

export const commonOptions = {
  config: {
    type: 'string',
    value: 'FILE',
    description:
      "The proxy's configuration file (COUNTERSIGN_CONFIG); referenced files need not exist locally",
  },
  environment: { type: 'string', value: 'NAME', description: 'Environment of the configuration' },
  login: { type: 'string', value: 'LOGIN', description: 'Login to operate on' },
  ...loginOptions,
  json: { type: 'boolean', default: false, description: 'Print JSON' },
} as const;

export type CommonValues = OptionValues<typeof commonOptions>;

export interface KeysContext {
  readonly config: Config;
  /** As configured, but with the token of the command line if one is given. */
  readonly keys: KeysConfig;
  readonly environment: string;
  readonly settings: EnvironmentConfig;
}

/** Runs a subcommand with the configuration that the options name. @throws CliError for invalid options */
export async function withKeysContext(
  values: CommonValues,
  io: Io,
  work: (context: KeysContext) => Promise<number>,
): Promise<number> {
  const { environment } = values;
  const file = configFileOf(values.config);
  if (file === undefined || environment === undefined) {
    throw new CliError('--config FILE and --environment NAME are required', exitCode.usage);
  }
  const withSettings = (config: Config): Promise<number> => {
    const settings = config.environments[environment];
    if (settings === undefined) {
      const names = Object.keys(config.environments).join(', ');
      throw new CliError(`unknown environment "${environment}"; configured: ${names}`, exitCode.usage);
    }
    const { keys } = withLogin(config, values);
    return work({ config, keys, environment, settings });
  };
  const loaded = await loadConfig(file, builtInOperations, { skipFiles: true, lookUp: lookUpUsed(values) });
  return withConfig(file, loaded, io, withSettings);
}

/** @throws CliError for a missing or invalid login */
export function loginRefOf({ environment }: KeysContext, { login }: CommonValues): LoginRef {
  if (login === undefined) throw new CliError('--login LOGIN is required', exitCode.usage);
  if (!isIdentifier(login)) {
    throw new CliError('--login must be 1 to 128 of A-Z a-z 0-9 . _ ~ @ -', exitCode.usage);
  }
  return { environment, login };
}

/** Runs a subcommand that writes to Vault. @throws CliError if the keys are in a directory */
export async function withVaultAdmin(
  context: KeysContext,
  work: (admin: VaultAdmin) => Promise<number>,
): Promise<number> {
  if (context.keys.source === 'directory') {
    throw new CliError(
      `the keys of this configuration are files in ${context.keys.directory}, which Countersign does not manage: change them at their source`,
      exitCode.usage,
    );
  }
  const admin = createAdmin(context.keys.vault);
  try {
    return await work(admin);
  } finally {
    await admin.close();
  }
}
