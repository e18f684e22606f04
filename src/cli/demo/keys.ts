import { generateKeyPair, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { errorCode } from '../../errors.ts';
import { CliError } from '../shared/cli-error.ts';
import { demoEnvironment } from './config.ts';

const privateKeyFile = 'private_key.pem';

/** Throwaway keys for the demo. */
export type DemoKeys = Awaited<ReturnType<typeof generateDemoKeys>>;

/** The names of key directories begin so. */
export const keyDirectoryPrefix = 'countersign-keys-';

/** Creates a directory that only this user can read. @throws CliError if that is not possible */
function createKeyDirectory(): string {
  try {
    return mkdtempSync(join(tmpdir(), keyDirectoryPrefix));
  } catch (error) {
    throw new CliError(
      `it cannot write its temporary keys to ${tmpdir()} (${errorCode(error) ?? 'no code'}). Set TMPDIR to a writable directory, such as /dev/shm`,
    );
  }
}

/**
 * Generates keys for each login in a new directory.
 *
 * @throws CliError if the folder for temporary files is not writable
 */
export async function generateDemoKeys(logins: readonly string[]) {
  const directory = createKeyDirectory();
  const remove = (): void => rmSync(directory, { recursive: true, force: true });
  try {
    await Promise.all(logins.map((login) => writeKeys(join(directory, demoEnvironment, login))));
  } catch (error) {
    remove();
    throw error;
  }
  return {
    directory,
    /** Deletes the directory. */
    remove,
    /** Replaces the keys of a login by what cannot be read, even by root. */
    makeUnreadable(login: string): void {
      const file = join(directory, demoEnvironment, login, privateKeyFile);
      rmSync(file);
      mkdirSync(file);
    },
  };
}

/** Writes new keys of a login to where the directory source reads them. */
async function writeKeys(directory: string): Promise<void> {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  writeAtomically(join(directory, 'control_key'), randomBytes(24).toString('base64url'));
  await writePrivateKey(directory);
}

/** Writes a new RSA key to where the directory source reads it. @returns the public key, PEM */
export async function writePrivateKey(directory: string): Promise<string> {
  const { privateKey, publicKey } = await promisify(generateKeyPair)('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  writeAtomically(join(directory, privateKeyFile), privateKey);
  return publicKey;
}

/** Writes a file that only this user can read. A reader sees the old content or the new one, never a part. */
export function writeAtomically(file: string, content: string): void {
  const temporary = `${file}.${process.pid}`;
  try {
    writeFileSync(temporary, content, { mode: 0o600, flag: 'wx' });
    renameSync(temporary, file);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}
