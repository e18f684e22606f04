import { describe, expect, it } from '@jest/globals';
import { table } from '../../../../src/cli/shared/table.ts';

describe('a table', () => {
  it('makes columns as wide as their content', () => {
    expect(
      table(
        ['A', 'LONG', 'LAST'],
        [
          ['wide', 'x', 'end'],
          ['y', '', ''],
        ],
      ),
    ).toEqual(['A     LONG  LAST', 'wide  x     end', 'y']);
  });

  it('breaks the last column between words, so that no line has more than 100 characters', () => {
    const lines = table(['NAME', 'TEXT'], [['name', 'word '.repeat(60).trim()]]);
    expect(lines.length).toBe(5);
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(100);
    expect(lines.slice(2).every((line) => line.startsWith('      word'))).toBe(true);
    expect(lines.join(' ').match(/word/g)?.length).toBe(60);
  });

  it('does not break a word', () => {
    expect(table(['A', 'B'], [['x'.repeat(90), 'y'.repeat(64)]])[1]).toBe(
      `${'x'.repeat(90)}  ${'y'.repeat(64)}`,
    );
  });

  it('takes as long as its text is, however many words or rows another server sent', () => {
    const start = performance.now();
    const wrapped = table(['A', 'B'], [['', 'a '.repeat(1_000_000)]]);
    expect(wrapped.length).toBeGreaterThan(20_000);
    expect(performance.now() - start).toBeLessThan(10_000);
    const rows = Array.from({ length: 200_000 }, () => ['x', 'y']);
    expect(table(['A', 'B'], rows)).toHaveLength(200_001);
  });
});
