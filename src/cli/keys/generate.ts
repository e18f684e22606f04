import { generateKeyPair } from 'node:crypto';
import { promisify } from 'node:util';
import type { LoginRef } from '../../keys/login-ref.ts';
import { revealFields } from '../../keys/vault/client.ts';
import type { VaultConnection } from '../../keys/vault/source.ts';
import { isTransitName, transitKeyIn, transitNameOf } from '../../keys/vault/transit.ts';
import { CliError, exitCode } from '../shared/cli-error.ts';
import { command, parsed, wholeNumber } from '../shared/command.ts';
import { commonOptions } from './options.ts';
import { addKey, addOptions, type NewKey } from './write.ts';

const options = {
  ...commonOptions,
  transit: "Make the key in Vault's Transit engine, which it never leaves (keys.vault.transit)",
  'transit-name NAME':
    'Name of the Transit key (default: as before, or else derived from the login); with --transit',
  'bits N': parsed(
    'Key length, 2048 to 8192; with --transit 2048, 3072 or 4096',
    wholeNumber(2048, 8192, 'must be between 2048 and 8192'),
    '4096',
  ),
  ...addOptions,
};

const spec = {
  name: 'keys generate',
  usage: '--config FILE --environment NAME --login LOGIN [options]',
  about:
    "Generates an RSA key pair and stores the private key in Vault as a new version of the login's secret. Other fields are kept; the private key is stored nowhere else. Prints the public key and its fingerprint for the gateway's support manager. With --transit Vault generates it, and the secret only names it: the private key never leaves Vault. Without --transit, a login goes back to a key in its secret. How to rotate a key: docs/key-rotation.md.",
  options,
};

export const generateKey = command(spec, ({ values }, io) => {
  const { bits, transit, 'transit-name': name } = values;
  if (transit) return addKey(values, io, newTransitKey(bits, name));
  if (name !== undefined) throw new CliError('--transit-name requires --transit', exitCode.usage);
  return addKey(values, io, async () => ({
    private_key: await newPrivateKey(bits),
    passphrase: undefined,
    transit_key: undefined,
  }));
});

/** @throws CliError for a length or a name that the Transit engine does not support */
function newTransitKey(bits: number, chosen: string | undefined): NewKey {
  if (![2048, 3072, 4096].includes(bits))
    throw new CliError('--bits must be 2048, 3072 or 4096 with --transit', exitCode.usage);
  return async ({ kv, transit }, login) => {
    const name = chosen ?? (await nameInUse(kv, login)) ?? transitNameOf(login.login);
    if (!isTransitName(name)) {
      throw new CliError(
        'the Transit key needs a name of 1 to 255 of A-Z a-z 0-9 _ . - that neither begins nor ends with . or -: choose one with --transit-name. Nothing was written.',
      );
    }
    const transit_key = await transit.generate(login.environment, name, bits);
    return { transit_key, private_key: undefined, passphrase: undefined };
  };
}

/** Also of a key that cannot be used any more: its name is that of the login. */
async function nameInUse(kv: VaultConnection['kv'], login: LoginRef): Promise<string | undefined> {
  const current = (await kv.history(login))?.current ?? 0;
  const fields = current === 0 ? undefined : (await kv.read(login, current))?.fields;
  return transitKeyIn(revealFields(fields ?? {})['transit_key'])?.name;
}

/** PEM, PKCS#8. */
async function newPrivateKey(bits: number): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: bits });
  return privateKey.export({ type: 'pkcs8', format: 'pem' });
}
