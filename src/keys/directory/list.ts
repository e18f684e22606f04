import { readdir } from 'node:fs/promises';

/**
 * Names of the folders in a key directory: of environments, or of logins below one. Hidden folders are no names
 * of ours: a mounted Kubernetes secret keeps its history in some.
 */
export async function listSubdirectories(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true });
  return entries.filter((entry) => !entry.isFile() && !entry.name.startsWith('.')).map(({ name }) => name);
}
