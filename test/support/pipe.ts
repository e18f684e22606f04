import { execFileSync } from 'node:child_process';
import { constants, openSync, readSync } from 'node:fs';
import { errorCode } from '../../src/errors.ts';
import { Folder } from './folder.ts';

/** A pipe whose reader reads only when it is told to. Neither end blocks. */
export class Pipe {
  readonly #folder = new Folder();
  readonly descriptor: number;

  constructor() {
    const path = this.#folder.at('pipe');
    execFileSync('mkfifo', [path]);
    this.descriptor = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  }

  /** Everything that is in it. */
  read(): Buffer {
    const chunk = Buffer.alloc(65_536);
    const read: Buffer[] = [];
    try {
      for (;;) read.push(Buffer.from(chunk.subarray(0, readSync(this.descriptor, chunk))));
    } catch (error) {
      if (errorCode(error) !== 'EAGAIN') throw error;
    }
    return Buffer.concat(read);
  }

  /** The descriptor stays open: a log that still tries to write would use the next file that has its number. */
  close(): void {
    this.#folder.remove();
  }
}
