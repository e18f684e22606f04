import type { FileHandle } from 'node:fs/promises';
import { type AuditRecord, parseRecord } from './chain.ts';
import { isTorn, isTornStart } from './torn-line.ts';

/** How a file of an audit trail ends. */
export interface Tail {
  /** The last whole record; absent in an empty file. */
  readonly last?: { readonly record: AuditRecord; readonly line: Buffer };
  /** Bytes after that record, up to where the next one begins, of an incomplete line that a killed process left. */
  readonly torn: number;
  /** The same, if there are lines that no crash leaves: then `torn` is 0. */
  readonly damaged: number;
  /** The last line has no line feed. */
  readonly isOpen: boolean;
}

/** Many times the length of a record. */
const searched = 65_536;
const newline = 0x0a;

/** Reads the end of a file. @returns `undefined` if there is no record */
export async function readTail(file: FileHandle): Promise<Tail | undefined> {
  const { size } = await file.stat();
  if (size === 0) return { torn: 0, damaged: 0, isOpen: false };
  const buffer = Buffer.alloc(Math.min(size, searched));
  const { bytesRead } = await file.read(buffer, 0, buffer.length, size - buffer.length);
  return tailOf(buffer.subarray(0, bytesRead), bytesRead === size);
}

/** @param isWhole the bytes are the whole file, not only its end */
export function tailOf(bytes: Buffer, isWhole: boolean): Tail | undefined {
  const isOpen = bytes.at(-1) !== newline;
  const end = isOpen ? bytes.length + 1 : bytes.length;
  const others: Buffer[] = [];
  for (let lineEnd = end - 1; lineEnd > 0; ) {
    const lineStart = bytes.lastIndexOf(newline, lineEnd - 1) + 1;
    const line = bytes.subarray(lineStart, lineEnd);
    const record = parseRecord(line);
    if (record !== undefined) {
      return { last: { record, line }, ...describeRest(others.toReversed(), end - lineEnd - 1), isOpen };
    }
    others.push(line);
    lineEnd = lineStart - 1;
  }
  // The process was killed while it wrote the first record. An empty first line is not among the others.
  const isFirstRecord = isWhole && bytes[0] !== newline && others.every(isTornStart);
  return isFirstRecord ? { torn: end, damaged: 0, isOpen } : undefined;
}

/** A process that ends an incomplete line can be killed within its own first record. @param bytes of these lines */
function describeRest(lines: readonly Buffer[], bytes: number): Pick<Tail, 'torn' | 'damaged'> {
  const isLeft = lines.every((line, at) => (at === 0 ? isTorn(line) : isTornStart(line)));
  return isLeft ? { torn: bytes, damaged: 0 } : { torn: 0, damaged: bytes };
}
