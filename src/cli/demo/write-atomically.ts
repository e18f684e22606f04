import { renameSync, rmSync, writeFileSync } from 'node:fs';

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
