import { createPublicKey, generateKeyPair, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { errorCode } from '../../errors.ts';
import type { KeyKind } from '../../oauth1/methods.ts';
import { CliError } from '../shared/cli-error.ts';
import { demoEnvironment } from './config.ts';

/** A throwaway key, as both sides of a demo store it. */
export interface NewKey {
  /** Name of its file in the key directory of a login. */
  readonly file: string;
  readonly content: string;
  /** Body of `PUT /keys/{login}` of the simulator (docs/simulator.md). */
  readonly registration: Readonly<Record<string, readonly string[]>>;
}

/** Throwaway keys for the demo. */
export type DemoKeys = Awaited<ReturnType<typeof generateDemoKeys>>;

/** Temporary directories, the second one in memory: writable in containers with a read-only root. */
export const temporaryDirectories: readonly string[] = [tmpdir(), '/dev/shm'];
/** The names of key directories begin so. */
export const keyDirectoryPrefix = 'countersign-keys-';

/**
 * Creates a directory in the first writable one of these. Only this user can read it.
 *
 * @throws CliError if none is writable
 */
export function createKeyDirectory(parents: readonly string[]): string {
  const failures: string[] = [];
  for (const parent of parents) {
    try {
      return mkdtempSync(join(parent, keyDirectoryPrefix));
    } catch (error) {
      failures.push(`${parent} (${errorCode(error) ?? 'no code'})`);
    }
  }
  throw new CliError(
    `Without --config, Countersign writes temporary keys, but it cannot write to ${failures.join(' or ')}. ` +
      'Use --config FILE, or set TMPDIR to a writable directory',
  );
}

/**
 * Generates keys for each login in a new directory.
 *
 * @throws CliError if no directory is writable
 */
export async function generateDemoKeys(logins: readonly string[]) {
  const directory = createKeyDirectory(temporaryDirectories);
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
      const file = join(directory, demoEnvironment, login, 'private_key.pem');
      rmSync(file);
      mkdirSync(file);
    },
  };
}

/** Writes new keys of a login to where the directory source reads them. */
async function writeKeys(directory: string): Promise<void> {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  for (const kind of ['control_key', 'private_key'] as const) writeKey(directory, await generateKey(kind));
}

export async function generateKey(kind: KeyKind): Promise<NewKey> {
  if (kind === 'control_key') {
    const content = randomBytes(24).toString('base64url');
    return { file: 'control_key', content, registration: { controlKeys: [content] } };
  }
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  const publicKey = createPublicKey(privateKey).export({ type: 'spki', format: 'pem' });
  return {
    file: 'private_key.pem',
    content: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    registration: { publicKeys: [publicKey] },
  };
}

/** Writes a key to where the directory source reads it. */
export function writeKey(directory: string, { file, content }: NewKey): void {
  writeAtomically(join(directory, file), content);
}

/** Whether a directory has this key now. @throws an error of node:fs if it has none */
export function hasKey(directory: string, { file, content }: NewKey): boolean {
  return readFileSync(join(directory, file), 'utf8') === content;
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
