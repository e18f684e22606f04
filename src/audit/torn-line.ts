import { createHash } from 'node:crypto';
import { recordKinds } from './chain.ts';

/** What a start record says of {@link TornBytes}. */
export interface TornFields {
  /** Bytes. */
  readonly torn: number;
  /** SHA-256 of these bytes, hex, which shows whether they were replaced or removed. */
  readonly tornSha256: string;
}

/**
 * What was left after the last whole record: by a crash, or in a file that was renamed while a write to it failed. Without
 * the line feed at its end.
 */
export class TornBytes {
  readonly #hash = createHash('sha256');
  #bytes = 0;

  add(bytes: Buffer): void {
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
  }

  get fields(): TornFields {
    return { torn: this.#bytes, tornSha256: this.#hash.copy().digest('hex') };
  }
}

/** The whole end of a record. What is cut off never contains it: within a text of JSON its quotation marks are escaped. */
const seal = /,"mac":"[0-9a-f]{64}"\}/;

/** Whether a crash can have left this line after the last record: the beginning of a record, or zeros of a power failure. */
export function isTorn(line: Buffer): boolean {
  return line[0] === 0 || isBeginning(line, '{"audit":"');
}

/** Whether a process that was killed while it wrote its first record can have left this line. */
export function isTornStart(line: Buffer): boolean {
  return isBeginning(line, '{"audit":"start",');
}

/** Whether this is where a process was killed while it wrote the record with this sequence number. */
export function isCutRecord(line: Buffer, sequence: number): boolean {
  return recordKinds.some((kind) => isBeginning(line, `{"audit":"${kind}","seq":${sequence},`));
}

function isBeginning(line: Buffer, start: string): boolean {
  const text = line.toString('latin1', 0, start.length);
  return text !== '' && start.startsWith(text) && !isWhole(line.toString('latin1'));
}

function isWhole(text: string): boolean {
  return seal.test(text) || isJson(text);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
