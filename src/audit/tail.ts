import type { FileHandle } from 'node:fs/promises';
import { type AuditRecord, isTorn, isTornStart, parseRecord, TornBytes } from './chain.ts';

/** How a file of an audit trail ends. */
export interface Tail {
  /** The last whole record; absent in a file that has none. */
  readonly last?: { readonly record: AuditRecord; readonly line: Buffer };
  /** What a killed process or a power failure left after that record. */
  readonly torn?: TornBytes;
  /** Bytes after that record of lines that no crash leaves. */
  readonly damaged?: number;
  /** The last line has no line feed. */
  readonly isOpen: boolean;
}

/** Many times the length of a record. */
const searched = 65_536;
const newline = 0x0a;

/**
 * Reads the end of a file, however much follows its last record. The time is linear in that, the memory bounded.
 *
 * @returns `undefined` if the file has content and no record
 */
export async function readTail(file: FileHandle): Promise<Tail | undefined> {
  const { size } = await file.stat();
  if (size === 0) return { isOpen: false };
  const isOpen = (await read(file, size - 1, size))[0] !== newline;
  const found = await findLastRecord(file, size);
  if (found !== undefined && found.end >= size) return { last: found.last, isOpen };
  const from = found?.end ?? 0;
  const { torn, isTorn, isTornStart } = await describeRest(file, from, isOpen ? size : size - 1);
  if (found === undefined) return isTornStart ? { torn, isOpen } : undefined;
  return { last: found.last, ...(isTorn ? { torn } : { damaged: size - from }), isOpen };
}

/** Each part overlaps the one before by its half, so that one of them has the whole record. */
async function findLastRecord(file: FileHandle, size: number) {
  for (let end = size; ; end -= searched) {
    const start = Math.max(0, end - 2 * searched);
    const found = lastRecordIn(await read(file, start, end), start === 0);
    if (found !== undefined) return { ...found, end: start + found.end };
    if (start === 0) return undefined;
  }
}

/** @param isWhole the bytes begin with the beginning of a line @returns also where the next line begins */
function lastRecordIn(bytes: Buffer, isWhole: boolean) {
  for (let lineEnd = bytes.length; lineEnd > 0; ) {
    const feed = bytes.lastIndexOf(newline, lineEnd - 1);
    if (feed === -1 && !isWhole) return undefined;
    const line = bytes.subarray(feed + 1, lineEnd);
    const record = parseRecord(line);
    if (record !== undefined) return { last: { record, line: Buffer.from(line) }, end: lineEnd + 1 };
    lineEnd = feed;
  }
  return undefined;
}

/**
 * What is between two places of a file.
 *
 * @returns also whether a crash can have left it, and whether a process can that was killed in the first record of the file
 */
async function describeRest(file: FileHandle, from: number, to: number) {
  const lines = to - from <= searched ? (await read(file, from, to)).toString('latin1').split('\n') : [];
  const torn = new TornBytes();
  let isZero = to > from;
  for (let at = from; at < to; at += searched) {
    const bytes = await read(file, at, Math.min(at + searched, to));
    torn.add(bytes);
    isZero &&= bytes.every((byte) => byte === 0);
  }
  const are = (test: (line: string, at: number) => boolean) =>
    isZero || (lines.length > 0 && lines.every(test));
  return {
    torn,
    // A process that ends an incomplete line can be killed within its own first record.
    isTorn: are((line, at) => (at === 0 ? isTorn(line) : isTornStart(line))),
    isTornStart: are(isTornStart),
  };
}

async function read(file: FileHandle, from: number, to: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(to - from), 0, to - from, from);
  return buffer.subarray(0, bytesRead);
}
