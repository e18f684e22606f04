import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it, jest } from '@jest/globals';
import * as fc from 'fast-check';
import { LogDestination } from '../../../src/observability/log-destination.ts';

/** What one write does: write a number of bytes, or fail. */
type Step = number | 'ENOSPC' | 'EIO' | 'EPIPE' | 'EAGAIN';

const everything = Number.POSITIVE_INFINITY;

/** An output that follows a script, and then writes everything. */
class ScriptedOutput {
  readonly steps: Step[];
  readonly writes: string[] = [];
  readonly #later: boolean;

  constructor(steps: readonly Step[], later = false) {
    this.steps = [...steps];
    this.#later = later;
  }

  get text(): string {
    return this.writes.join('');
  }

  async write(bytes: Buffer): Promise<number> {
    if (this.#later) await nextTurn();
    return this.writeSync(bytes);
  }

  writeSync(bytes: Buffer): number {
    const step = this.steps.shift() ?? everything;
    if (typeof step === 'string') throw Object.assign(new Error(step), { code: step });
    const written = Math.min(step, bytes.length);
    this.writes.push(bytes.toString('utf8', 0, written));
    return written;
  }
}

function open(steps: readonly Step[] = [], options: { capacity?: number; later?: boolean } = {}) {
  const { later, ...rest } = options;
  const output = new ScriptedOutput(steps, later);
  const clock = { now: 0 };
  const destination = new LogDestination({ output, monotonic: () => clock.now, ...rest });
  const recovered: number[] = [];
  const reported = {
    recovered,
    get dropped() {
      return destination.dropped;
    },
  };
  destination.onRecovery = (lines) => void recovered.push(lines);
  return { output, clock, destination, reported };
}

describe('log lines', () => {
  it('are gathered for 20 ms and written together', async () => {
    jest.useFakeTimers();
    try {
      const { output, destination } = open();
      destination.write('a\n');
      await jest.advanceTimersByTimeAsync(19);
      destination.write('b\n');
      expect(output.writes).toEqual([]);
      await jest.advanceTimersByTimeAsync(1);
      expect(output.writes).toEqual(['a\nb\n']);
    } finally {
      jest.useRealTimers();
    }
  });

  it('that are urgent are written at the end of the turn of the event loop, together with those before', async () => {
    jest.useFakeTimers();
    try {
      const { output, destination } = open();
      for (const line of ['a\n', 'b\n']) destination.write(line);
      destination.hurry();
      destination.write('c\n');
      expect(output.writes).toEqual([]);
      await jest.advanceTimersByTimeAsync(1);
      expect(output.writes).toEqual(['a\nb\nc\n']);
    } finally {
      jest.useRealTimers();
    }
  });

  it('of more than 16 KiB do not wait for others', async () => {
    jest.useFakeTimers();
    try {
      const { output, destination } = open();
      for (let lines = 0; lines < 17; lines += 1) destination.write(`${'x'.repeat(1_023)}\n`);
      await jest.advanceTimersByTimeAsync(1);
      expect(output.text).toHaveLength(17 * 1_024);
    } finally {
      jest.useRealTimers();
    }
  });

  it.each(['ENOSPC', 'EIO', 'EPIPE'] as const)('are dropped and counted after %s', async (code) => {
    const { output, destination, reported } = open([code]);
    destination.write('a\n');
    destination.write('b\n');
    await destination.flush(1_000);
    expect(reported).toEqual({ dropped: 2, recovered: [] });
    destination.write('c\n');
    await destination.flush(1_000);
    expect(output.text).toBe('c\n');
    destination.write('d\n');
    await destination.flush(1_000);
    expect(reported).toEqual({ dropped: 2, recovered: [2] });
  });

  it('that come during a write that fails are written next', async () => {
    const { output, destination, reported } = open(['ENOSPC'], { later: true });
    destination.write('a\n');
    destination.hurry();
    await nextTurn();
    destination.write('b\n');
    await destination.flush(1_000);
    expect(output.text).toBe('b\n');
    expect(reported).toEqual({ dropped: 1, recovered: [1] });
  });

  it('wait while the reader has stalled', async () => {
    const { output, destination, reported } = open(['EAGAIN', 'EAGAIN', 3]);
    destination.write('first\n');
    destination.write('second\n');
    await destination.flush(1_000);
    expect(output.writes).toEqual(['fir', 'st\nsecond\n']);
    expect(reported.dropped).toBe(0);
  });

  it('are retried with a short delay after a long stall', async () => {
    jest.useFakeTimers();
    try {
      const { output, destination } = open(['EAGAIN', 'EAGAIN', 'EAGAIN', 1, 'EAGAIN']);
      destination.write('a\n');
      destination.hurry();
      await jest.advanceTimersByTimeAsync(1 + 5 + 10 + 20);
      expect(output.text).toBe('a');
      await jest.advanceTimersByTimeAsync(5);
      expect(output.text).toBe('a\n');
    } finally {
      jest.useRealTimers();
    }
  });

  it('above the capacity in bytes are dropped and counted', async () => {
    const { output, destination, reported } = open(['EAGAIN'], { capacity: 9 });
    for (const line of ['äää\n', 'b\n', 'c\n', 'd\n']) destination.write(line);
    await destination.flush(1_000);
    expect(output.text).toBe('äää\nb\n');
    expect(reported).toEqual({ dropped: 2, recovered: [2] });
    destination.write('e\n');
    await destination.flush(1_000);
    expect(output.text.endsWith('b\ne\n')).toBe(true);
  });

  it('that are partly written are completed before any other', async () => {
    const { output, destination, reported } = open([4, 'ENOSPC', 'ENOSPC']);
    for (const line of ['first\n', 'second\n']) destination.write(line);
    await destination.flush(100);
    expect(output.text).toBe('firs');
    destination.write('third\n');
    await destination.flush(100);
    destination.write('fourth\n');
    await destination.flush(1_000);
    expect(output.text).toBe('first\nfourth\n');
    expect(reported).toEqual({ dropped: 2, recovered: [2] });
  });

  it('are whole, in order, and all accounted for, whatever the output does', async () => {
    const step = fc.oneof(
      fc.integer({ min: 1, max: 30 }),
      fc.constantFrom<Step>('ENOSPC', 'EIO', 'EPIPE', 'EAGAIN', everything),
    );
    const turns = fc.array(fc.array(fc.integer({ min: 1, max: 20 }), { maxLength: 4 }), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 12 }),
        turns,
        fc.boolean(),
        async (steps, sizes, later) => {
          const { output, destination, reported } = open(steps, { capacity: 100, later });
          let count = 0;
          for (const turn of sizes) {
            for (const size of turn) destination.write(`${count++}:${'x'.repeat(size)}.\n`);
            await wait(0);
          }
          await destination.flush(1_000);
          output.steps.length = 0;
          destination.write(`${count++}:x.\n`);
          await destination.flush(1_000);
          const lines = output.text.split('\n').slice(0, -1);
          expect(lines.filter((line) => !/^\d+:x+\.$/.test(line))).toEqual([]);
          const numbers = lines.map((line) => Number.parseInt(line, 10));
          expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
          expect(lines.length + reported.dropped).toBe(count);
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe('the state', () => {
  it('shows dropped lines for a minute', async () => {
    const { clock, destination } = open(['ENOSPC']);
    expect(destination.state().logLinesDropped).toBe(false);
    destination.write('a\n');
    await destination.flush(1_000);
    clock.now = 59_999;
    expect(destination.state().logLinesDropped).toBe(true);
    clock.now = 60_000;
    expect(destination.state().logLinesDropped).toBe(false);
  });

  it('shows a reader that has stalled for five seconds, until it reads again', async () => {
    const { output, clock, destination } = open(Array<Step>(50).fill('EAGAIN'));
    destination.write('a\n');
    await wait(40);
    clock.now = 5_000;
    expect(destination.state().logStalled).toBe(false);
    clock.now = 5_001;
    expect(destination.state().logStalled).toBe(true);
    output.steps.length = 0;
    await destination.flush(1_000);
    expect(destination.state().logStalled).toBe(false);
  });

  it('does not show one that has gone: what waited is dropped, and nothing waits', async () => {
    const { output, clock, destination, reported } = open(Array<Step>(50).fill('EAGAIN'));
    destination.write('a\n');
    await wait(40);
    clock.now = 6_000;
    output.steps.splice(0, 50, 'EPIPE');
    await destination.flush(1_000);
    expect([reported.dropped, destination.state().logStalled]).toEqual([1, false]);
  });
});

describe('at the exit', () => {
  it('flush gives up after its timeout', async () => {
    const { destination } = open(Array<Step>(100).fill('EAGAIN'));
    destination.write('a\n');
    const began = performance.now();
    await destination.flush(100);
    // All attempts would take 10 s.
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  it('waiting lines are written immediately, the rest of a partly written line first', async () => {
    const { output, destination } = open([2, 'EAGAIN']);
    destination.write('first\n');
    destination.hurry();
    await wait(1);
    destination.write('second\n');
    destination.flushSync();
    expect(output.text).toBe('first\nsecond\n');
  });

  it.each(['EAGAIN', 'ENOSPC'] as const)('a flush that cannot wait returns after %s', (code) => {
    const { output, destination } = open([code]);
    destination.write('a\n');
    destination.flushSync();
    expect(output.text).toBe('');
  });

  it('lines of a write in progress are not written twice', async () => {
    const { output, destination } = open([], { later: true });
    const written: string[] = [];
    output.writeSync = (bytes) => {
      written.push(bytes.toString());
      return bytes.length;
    };
    destination.write('a\n');
    destination.hurry();
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    destination.write('b\n');
    destination.flushSync();
    await destination.flush(1_000);
    expect([...output.writes, ...written].sort()).toEqual(['a\n', 'b\n']);
  });
});

describe('a write whose result is awaited', () => {
  it('is reported with its bytes, lines around it aside', async () => {
    const { destination, output } = open();
    const results: number[] = [];
    destination.write('log 1\n');
    destination.write('audit 1\naudit 2\n', (written) => results.push(written));
    destination.write('log 2\n');
    destination.write('audit 3\n', (written) => results.push(written));
    await destination.flush(1_000);
    expect([output.text, results]).toEqual(['log 1\naudit 1\naudit 2\nlog 2\naudit 3\n', [16, 8]]);
  });

  it('is reported up to the line that is partly written and completed later', async () => {
    const { destination, output } = open([10, 'ENOSPC']);
    const results: [string, number][] = [];
    destination.write('log 1\n');
    destination.write('audit 1\naudit 2\n', (written) => results.push(['first', written]));
    destination.write('audit 3\n', (written) => results.push(['second', written]));
    await destination.flush(1_000);
    expect(results).toEqual([
      ['first', 8],
      ['second', 0],
    ]);
    destination.write('audit 4\n', (written) => results.push(['third', written]));
    await destination.flush(1_000);
    expect([output.text, results[2]]).toEqual(['log 1\naudit 1\naudit 4\n', ['third', 8]]);
  });

  it('is 0 if there is no room for it', () => {
    const { destination } = open([], { capacity: 100 });
    const results: number[] = [];
    destination.write(`${'x'.repeat(100)}\n`, (written) => results.push(written));
    expect(results).toEqual([0]);
  });

  it('has as many of its lines in the output as are reported, whatever the output does', async () => {
    const step = fc.oneof(
      fc.integer({ min: 0, max: 40 }),
      fc.constantFrom('ENOSPC' as const, 'EIO' as const),
    );
    const rounds = fc.array(fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 4 }), { maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), rounds, fc.boolean(), async (steps, all, later) => {
        const { destination, output } = open(steps, { later });
        const reported: string[] = [];
        const written: string[] = [];
        for (const [round, counts] of all.entries()) {
          for (const [at, count] of counts.entries()) {
            const lines = Array.from({ length: count }, (_, line) => `r${round} w${at} l${line}\n`);
            if (count === 0) destination.write('log\n');
            else destination.write(lines.join(''), (bytes) => reported.push(lines.join('').slice(0, bytes)));
          }
          await destination.flush(1_000);
        }
        // Completes a line that is still partly written.
        output.steps.splice(0);
        destination.write('log\n');
        await destination.flush(1_000);
        for (const line of output.text.split(/(?<=\n)/)) if (line.startsWith('r')) written.push(line);
        expect(
          reported
            .join('')
            .split(/(?<=\n)/)
            .toSorted(),
        ).toEqual(written.length === 0 ? [''] : written.toSorted());
      }),
      { numRuns: 100 },
    );
  }, 60_000);
});
