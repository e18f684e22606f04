import { Readable } from 'node:stream';
import { expect, it } from '@jest/globals';
import { readLines } from '../../../src/cli/audit-verify.ts';

async function linesOf(...chunks: string[]): Promise<[text: string, number: number, isOpen: boolean][]> {
  const lines: [string, number, boolean][] = [];
  for await (const some of readLines(Readable.from(chunks.map((chunk) => Buffer.from(chunk))))) {
    for (const { bytes, number, isOpen } of some) lines.push([bytes.toString(), number, isOpen]);
  }
  return lines;
}

it('lines are complete wherever the chunks end', async () => {
  expect(await linesOf('a\nb', 'c\n', '\n', 'd')).toEqual([
    ['a', 1, false],
    ['bc', 2, false],
    ['', 3, false],
    ['d', 4, true],
  ]);
});

it('a line that is too long for a record is passed on in parts, so that it does not fill the memory', async () => {
  const chunk = 'x'.repeat(50_000);
  const lines = await linesOf(chunk, chunk, chunk, chunk, '\n');
  expect(lines.map(([{ length }]) => length)).toEqual([100_000, 100_000, 0]);
});
