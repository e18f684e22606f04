import { describe, expect, it } from '@jest/globals';
import { openScreen, type Reading, untilStopped, watch } from '../../../../src/cli/status/watch.ts';

describe('watching', () => {
  it('is stopped when the reader of the output is gone', () => {
    const { signal, release } = untilStopped();
    expect(signal.aborted).toBe(false);
    process.stdout.emit('error', new Error('EPIPE'));
    expect(signal.aborted).toBe(true);
    release();
  });

  it('continues after a failed reading, and returns the exit code of the last one', async () => {
    const stop = new AbortController();
    const readings: Reading[] = [
      { lines: ['one'], failed: false, exit: 0 },
      { lines: ['no status'], failed: true, exit: 1 },
      { lines: ['three'], failed: false, exit: 0 },
    ];
    const shown: string[] = [];
    const show = ({ lines }: Reading): void => {
      shown.push(...lines);
      if (readings.length === 0) stop.abort();
    };
    const read = async (): Promise<Reading> => readings.shift() ?? { lines: ['late'], failed: true, exit: 1 };
    expect(await watch(read, { interval: 1, stop: stop.signal, show })).toBe(0);
    expect(shown).toEqual(['one', 'no status', 'three']);
  });

  it('ends at once in the middle of an interval or of a reading, without showing what the end caused', async () => {
    const stop = new AbortController();
    const shown: string[] = [];
    let count = 0;
    const read = async (signal: AbortSignal): Promise<Reading> => {
      count += 1;
      if (count === 1) return { lines: ['first'], failed: false, exit: 1 };
      stop.abort();
      return { lines: [`aborted: ${signal.aborted}`], failed: true, exit: 0 };
    };
    const show = ({ lines }: Reading): void => void shown.push(...lines);
    expect(await watch(read, { interval: 1, stop: stop.signal, show })).toBe(1);
    expect(shown).toEqual(['first']);
    const during = new AbortController();
    setTimeout(() => during.abort(), 20);
    const none = { interval: 1, stop: AbortSignal.abort(), show };
    expect(await watch(read, none)).toBe(1);
    const calm = async (): Promise<Reading> => ({ lines: [], failed: false, exit: 0 });
    expect(await watch(calm, { interval: 1e6, stop: during.signal, show: () => {} })).toBe(0);
  });
});

describe('the screen', () => {
  const terminal = (columns: number, rows: number) => {
    const written: string[] = [];
    return { columns, rows, written, write: (text: string) => void written.push(text) };
  };

  it('draws over what it showed, and gives back what was there before', () => {
    const given = terminal(80, 24);
    const screen = openScreen(given);
    screen.draw(['one', 'two']);
    screen.close();
    expect(given.written).toEqual([
      '\u001b[?1049h\u001b[?25l',
      '\u001b[H\u001b[Kone\r\n\u001b[Jtwo',
      '\u001b[?25h\u001b[?1049l',
    ]);
  });

  it('cuts what would wrap or scroll, and says how many lines are hidden', () => {
    const given = terminal(60, 3);
    openScreen(given).draw(['x'.repeat(61), 'b', 'c', 'd']);
    expect(given.written.at(-1)).toBe(
      `\u001b[H\u001b[K${'x'.repeat(60)}\r\n\u001b[Kb\r\n\u001b[J2 more lines: enlarge the window, or omit --watch`,
    );
  });

  it.each([0, Number.NaN])('shows 24 lines of 80 characters where the terminal has no size (%p)', (size) => {
    const given = terminal(size, size);
    openScreen(given).draw(Array.from({ length: 30 }, () => 'x'.repeat(90)));
    const [first, ...others] = given.written.at(-1)?.split('\r\n') ?? [];
    expect(first).toBe(`\u001b[H\u001b[K${'x'.repeat(80)}`);
    expect(others).toHaveLength(23);
  });

  it('fits exactly', () => {
    const given = terminal(60, 2);
    openScreen(given).draw(['a', 'b']);
    expect(given.written.at(-1)).toBe('\u001b[H\u001b[Ka\r\n\u001b[Jb');
  });
});
