import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { errorCode } from '../../util/error-code.ts';
import { CliError } from '../shared/cli-error.ts';
import { demoEnvironment } from './config.ts';
import { generateKey, writeKey } from './new-key.ts';

/** Throwaway keys for the demo. */
export interface DemoKeys {
  readonly directory: string;
  /** Replaces the keys of a login by what cannot be read, even by root. */
  makeUnreadable(login: string): void;
  /** Deletes the directory. */
  remove(): void;
}

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
export async function generateDemoKeys(logins: readonly string[]): Promise<DemoKeys> {
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
    remove,
    makeUnreadable(login) {
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
