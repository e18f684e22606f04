import type { Readable } from 'node:stream';

export interface Line {
  /** Without its line feed. */
  readonly bytes: Buffer;
  /** From 1. */
  readonly number: number;
  /** No line feed follows: the end of the input, or a part of a line that is too long for a record. */
  readonly isOpen: boolean;
}

const newline = 0x0a;
/** Many times the length of a record. What is longer is cut: it cannot be a record. */
const maxLineBytes = 65_536;

/** The lines of an input, as bytes. @throws Error of the input */
export async function* readLines(input: Readable): AsyncGenerator<Line[]> {
  let rest = Buffer.alloc(0);
  let number = 0;
  for await (const chunk of input) {
    const bytes = Buffer.concat([rest, chunk]);
    const lines: Line[] = [];
    let start = 0;
    for (let end = bytes.indexOf(newline); end !== -1; end = bytes.indexOf(newline, start)) {
      number += 1;
      lines.push({ bytes: bytes.subarray(start, end), number, isOpen: false });
      start = end + 1;
    }
    rest = bytes.subarray(start);
    if (rest.length > maxLineBytes) {
      number += 1;
      lines.push({ bytes: rest, number, isOpen: true });
      rest = Buffer.alloc(0);
    }
    yield lines;
  }
  if (rest.length > 0) yield [{ bytes: rest, number: number + 1, isOpen: true }];
}
