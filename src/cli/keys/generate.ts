import { generateKeyPair } from 'node:crypto';
import { promisify } from 'node:util';
import type { Io } from '../shared/io.ts';
import { numberFrom, optionsHelp, parseOptions } from '../shared/parse-options.ts';
import { addKey, addOptions } from './add.ts';
import { commonOptions } from './options.ts';

const options = {
  ...commonOptions,
  bits: { type: 'string', value: 'N', default: '4096', description: 'Key length, 2048 to 8192' },
  ...addOptions,
} as const;

const usage = `Usage: countersign keys generate --config FILE --environment NAME --login LOGIN [options]

Generates an RSA key pair and stores the private key in Vault as a new version of the login's secret. Other
fields are kept; the private key is stored nowhere else. Prints the public key and its fingerprint for the
gateway's support manager.

${optionsHelp(options)}`;

export async function generateKey(argv: readonly string[], io: Io): Promise<number> {
  const parsed = parseOptions('keys generate', argv, options, usage, io);
  if ('exit' in parsed) return parsed.exit;
  const { values } = parsed;
  const bits = numberFrom('--bits', values.bits, 2048, 8192, 'must be between 2048 and 8192');
  return addKey(values, io, async () => ({ private_key: await newPrivateKey(bits), passphrase: undefined }));
}

/** PEM, PKCS#8. */
async function newPrivateKey(bits: number): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: bits });
  return privateKey.export({ type: 'pkcs8', format: 'pem' });
}
