import type { Config, EnvironmentConfig } from '../../config/schema.ts';
import { identifierCharacters, identifierPattern } from '../../identifiers.ts';
import { silentObserver } from '../../keys/key-source.ts';
import type { LoginRef } from '../../keys/login-ref.ts';
import { isVaultError } from '../../keys/vault/errors.ts';
import { connectVault, type VaultConnection } from '../../keys/vault/source.ts';
import { system } from '../../service/system.ts';
import { CliError, exitCode } from '../shared/cli-error.ts';
import type { Io, OptionValues } from '../shared/command.ts';
import { configFileOf } from '../shared/config-file.ts';
import { type KeyInventory, withInventory } from '../shared/inventory.ts';
import { loadWithLogin, optionLogin, vaultOptions, vaultToken } from '../shared/vault-login.ts';

export const commonOptions = {
  'config FILE':
    "The proxy's configuration file (COUNTERSIGN_CONFIG); referenced files need not exist locally",
  'environment NAME': 'Environment of the configuration',
  'login LOGIN': 'Login to operate on',
  ...vaultOptions,
  json: 'Print JSON',
};

export type CommonValues = OptionValues<typeof commonOptions>;

export interface KeysContext {
  /** With the login of the operator, if there is one. */
  readonly config: Config;
  readonly environment: string;
  readonly settings: EnvironmentConfig;
  /** Instead of the login of the configuration. */
  readonly hasOwnToken: boolean;
}

/** The configuration that the options name. @throws CliError for invalid options */
async function contextOf(values: CommonValues, io: Io): Promise<KeysContext> {
  const { environment } = values;
  const file = configFileOf(values.config);
  if (file === undefined || environment === undefined) {
    throw new CliError('--config FILE and --environment NAME are required', exitCode.usage);
  }
  const given = optionLogin(values);
  const token = given.auth === undefined ? vaultToken() : undefined;
  const config = await loadWithLogin(file, { ...given, auth: given.auth ?? token?.auth });
  if (config.keys.source === 'vault' && (given.address ?? token) !== undefined)
    io.err(`Vault: ${config.keys.vault.address}${token === undefined ? '' : `, token: ${token.source}`}`);
  const settings = config.environments[environment];
  if (settings === undefined) {
    const names = Object.keys(config.environments).join(', ');
    throw new CliError(`unknown environment "${environment}"; configured: ${names}`, exitCode.usage);
  }
  return { config, environment, settings, hasOwnToken: (given.auth ?? token) !== undefined };
}

/** @throws CliError if Vault denies it to the login of the configuration, which in production may only read keys */
function withAdvice<T>({ hasOwnToken }: KeysContext, work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    if (hasOwnToken || !isVaultError(error, 'denied')) throw error;
    throw new CliError(`${error.message} to the login of the configuration. Run "vault login" for your own.`);
  });
}

/** @throws CliError for a missing or invalid login */
export function loginRefOf({ environment }: KeysContext, { login }: CommonValues): LoginRef {
  if (login === undefined) throw new CliError('--login LOGIN is required', exitCode.usage);
  if (!identifierPattern.test(login)) {
    throw new CliError(`--login must be 1 to 128 of ${identifierCharacters}`, exitCode.usage);
  }
  return { environment, login };
}

/** Runs a subcommand that reads keys. @throws CliError for invalid options */
export async function withStoredKeys(
  values: CommonValues,
  io: Io,
  work: (inventory: KeyInventory, context: KeysContext) => Promise<number>,
): Promise<number> {
  const context = await contextOf(values, io);
  const { keys } = context.config;
  return withAdvice(
    context,
    withInventory(keys, {}, (inventory) => work(inventory, context)),
  );
}

/** Runs a subcommand that writes to Vault. @throws CliError for invalid options, or if the keys are in a directory */
export async function withVault(
  values: CommonValues,
  io: Io,
  work: (vault: VaultConnection, login: LoginRef) => Promise<number>,
): Promise<number> {
  const context = await contextOf(values, io);
  const { keys } = context.config;
  if (keys.source === 'directory') {
    throw new CliError(
      `the keys of this configuration are files in ${keys.directory}, which Countersign does not manage: change them at their source`,
      exitCode.usage,
    );
  }
  const login = loginRefOf(context, values);
  const vault = connectVault(keys.vault, { ...system, events: silentObserver });
  try {
    return await withAdvice(context, work(vault, login));
  } finally {
    await vault.close();
  }
}
