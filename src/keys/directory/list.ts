import { readdir } from 'node:fs/promises';

/**
 * Names of the subdirectories of a key directory: environments, or logins below one. Skips hidden directories:
 * Kubernetes keeps the data of a mounted secret in some.
 */
export async function listSubdirectories(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true });
  return entries.filter((entry) => !entry.isFile() && !entry.name.startsWith('.')).map(({ name }) => name);
}
