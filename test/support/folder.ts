import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A temporary folder. */
export class Folder {
  readonly path = mkdtempSync(join(tmpdir(), 'countersign-test-'));

  at(name: string): string {
    return join(this.path, name);
  }

  /** Writes a file and returns its path. */
  file(name: string, content: string | Uint8Array): string {
    writeFileSync(this.at(name), content);
    return this.at(name);
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}
