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

  it('has the last column below a row that leaves it too little space, and breaks no word', () => {
    const [wide, long] = ['x'.repeat(90), 'y'.repeat(64)];
    expect(
      table(
        ['A', 'B'],
        [
          [wide, long],
          [wide, 'two words that need more'],
          [wide, 'short'],
          [wide, ''],
        ],
      ),
    ).toEqual([
      `A${' '.repeat(91)}B`,
      wide,
      `    ${long}`,
      wide,
      '    two words that need more',
      `${wide}  short`,
      wide,
    ]);
    expect(table(['A', 'B'], [['x', long]], 40)).toEqual(['A  B', 'x', `    ${long}`]);
  });

  it('keeps a number and its unit together', () => {
    expect(table(['A', 'B'], [['x'.repeat(60), 'it was read 25 s ago']], 80).slice(1)).toEqual([
      'x'.repeat(60),
      '    it was read 25 s ago',
    ]);
    expect(table(['A', 'B'], [['x', 'it was then read again 25 s ago']], 29).slice(1)).toEqual([
      'x  it was then read again',
      '   25 s ago',
    ]);
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
