import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** The path of the first of these programs that is installed. Starts nothing. */
export function findProgram(...names: readonly string[]): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  return names
    .flatMap((name) => folders.map((folder) => join(folder, name)))
    .find((path) => existsSync(path));
}
