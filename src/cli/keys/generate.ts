import { generateKeyPair } from 'node:crypto';
import { promisify } from 'node:util';
import { Secret } from '../../secret.ts';
import { CliError } from '../shared/cli-error.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { parseOptions } from '../shared/parse-options.ts';
import { commonOptions, commonUsage, loginRefOf, withKeysContext, withVaultAdmin } from './options.ts';
import {
  addOptions,
  addUsage,
  checkAndSet,
  checkNewFile,
  reportWritten,
  validateNewKey,
  versionToExtend,
} from './write.ts';

const usage = `Usage: countersign keys generate --config FILE --environment NAME --login LOGIN [options]

Makes an RSA key pair and writes the private key to Vault as a new version of the login's secret; its other
fields stay. The private key is nowhere else. Prints the public key and its fingerprint, which the
gateway's support manager needs.

${commonUsage}
  --bits N            length of the key, 2048 to 8192 (default: 4096)
${addUsage}`;

const options = { ...commonOptions, ...addOptions, bits: { type: 'string', default: '4096' } } as const;

export async function generateKey(argv: readonly string[], io: Io): Promise<number> {
  const read = parseOptions('keys generate', argv, options, usage, io);
  if ('exit' in read) return read.exit;
  const { values } = read;
  const bits = bitsOf(values.bits);
  return withKeysContext(values, io, (place) =>
    withVaultAdmin(place, async (store) => {
      const address = loginRefOf(place, values);
      await checkNewFile(values['public-key']);
      const before = await versionToExtend(store, address, values);
      const pem = await newPrivateKey(bits);
      const facts = validateNewKey({ private_key: pem });
      const fields = { private_key: new Secret(pem), passphrase: undefined };
      const version = await checkAndSet(address, before, () => store.write(address, fields, before));
      return reportWritten({ ...facts, address, version, previousVersion: before }, values, io);
    }),
  );
}

function bitsOf(text: string): number {
  const bits = /^\d{4}$/.test(text) ? Number(text) : 0;
  if (bits < 2048 || bits > 8192) throw new CliError('--bits takes 2048 to 8192', exitCode.usage);
  return bits;
}

/** PEM, PKCS#8. */
async function newPrivateKey(bits: number): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: bits });
  return privateKey.export({ type: 'pkcs8', format: 'pem' });
}
