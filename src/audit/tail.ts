import type { FileHandle } from 'node:fs/promises';
import { type AuditRecord, parseRecord } from './chain.ts';

/** How a file of an audit trail ends. */
export interface Tail {
  /** The last whole record; absent in an empty file. */
  readonly last?: { readonly record: AuditRecord; readonly line: Buffer };
  /** Bytes after that record, up to where the next one begins. A process that was killed leaves an incomplete line. */
  readonly torn: number;
  /** The last line has no line feed. */
  readonly isOpen: boolean;
}

/** Many times the length of a record. */
const searched = 65_536;
const newline = 0x0a;

/** Reads the end of a file. @returns `undefined` if there is no record */
export async function readTail(file: FileHandle): Promise<Tail | undefined> {
  const { size } = await file.stat();
  if (size === 0) return { torn: 0, isOpen: false };
  const buffer = Buffer.alloc(Math.min(size, searched));
  const { bytesRead } = await file.read(buffer, 0, buffer.length, size - buffer.length);
  return tailOf(buffer.subarray(0, bytesRead), bytesRead === size);
}

/** @param isWhole the bytes are the whole file, not only its end */
export function tailOf(bytes: Buffer, isWhole: boolean): Tail | undefined {
  const isOpen = bytes.at(-1) !== newline;
  const end = isOpen ? bytes.length + 1 : bytes.length;
  for (let lineEnd = end - 1; lineEnd > 0; ) {
    const lineStart = bytes.lastIndexOf(newline, lineEnd - 1) + 1;
    const line = bytes.subarray(lineStart, lineEnd);
    const record = parseRecord(line);
    if (record !== undefined) return { last: { record, line }, torn: end - lineEnd - 1, isOpen };
    lineEnd = lineStart - 1;
  }
  // The process was killed while it wrote the first record.
  const isFirstRecord = isWhole && !bytes.subarray(0, -1).includes(newline) && startsAsRecord(bytes);
  return isFirstRecord ? { torn: end, isOpen } : undefined;
}

function startsAsRecord(bytes: Buffer): boolean {
  const start = '{"audit":"start",';
  return start.startsWith(bytes.toString('latin1', 0, start.length));
}
