import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { type Head, parseRecord, TornBytes } from '../../../src/audit/chain.ts';
import type { AuditOutput, WriteResult } from '../../../src/audit/chain-writer.ts';
import { AuditTrail } from '../../../src/audit/trail.ts';
import type { SetTimer } from '../../../src/util/clock.ts';
import { otherAuditKey, recordsOf, testAuditKey, verifyFiles } from '../../support/audit.ts';

/** A disk that fails as a test wants. */
class Disk implements AuditOutput {
  content = '';
  /** Contents of earlier files. */
  readonly earlier: string[] = [];
  /** Bytes that still fit. */
  space = Number.POSITIVE_INFINITY;
  isReplaced = false;
  refreshError: Error | undefined;
  confirms = true;
  writes = 0;
  closed = false;
  /** Writes wait for this. */
  hang: Promise<void> = Promise.resolve();

  async write(lines: Buffer): Promise<WriteResult> {
    this.writes += 1;
    await this.hang;
    const written = Math.min(lines.length, this.space);
    this.content += lines.toString('utf8', 0, written);
    this.space -= written;
    const confirmed = this.confirms ? written : 0;
    if (!this.confirms) return { written, confirmed, error: 'EIO' };
    return written === lines.length ? { written, confirmed } : { written, confirmed, error: 'ENOSPC' };
  }

  async refresh(): Promise<boolean> {
    if (this.refreshError !== undefined) throw this.refreshError;
    if (!this.isReplaced) return false;
    this.isReplaced = false;
    this.earlier.push(this.content);
    this.content = '';
    return true;
  }

  async close(): Promise<void> {
    this.closed = true;
  }
}

/** Timers that fire when a test says so. */
class Timers {
  readonly #due = new Map<() => void, number>();

  get count(): number {
    return this.#due.size;
  }

  readonly set: SetTimer = (run, milliseconds) => {
    this.#due.set(run, milliseconds);
    return () => void this.#due.delete(run);
  };

  /** Fires those that were set for the given number of milliseconds. Resolves after the write that this begins, unless the disk hangs. */
  async fire(milliseconds: number): Promise<void> {
    const due = [...this.#due].filter(([, delay]) => delay === milliseconds);
    for (const [run] of due) {
      this.#due.delete(run);
      run();
    }
    await nextTurn();
  }
}

let disk: Disk;
let timers: Timers;
let trail: AuditTrail;
let heads: Head[];
let lost: number;
let failures: string[];

/** @param left what an earlier process left of its first record */
function open(capacity?: number, left = ''): void {
  [disk, heads, lost, failures] = [new Disk(), [], 0, []];
  disk.content = left;
  timers = new Timers();
  trail = new AuditTrail({
    key: testAuditKey,
    instance: 'pod-a',
    output: disk,
    observer: {
      recordsWritten: (_count, head) => void heads.push(head),
      recordsLost: (count) => (lost += count),
      writeFailed: (cause) => void failures.push(cause),
    },
    process: () => ({}),
    clock: () => 0,
    setTimer: timers.set,
    ...(capacity === undefined ? {} : { capacity }),
    ...(left === '' ? {} : { tail: tailOf(left) }),
  });
}

function tailOf(left: string) {
  const torn = new TornBytes();
  torn.add(Buffer.from(left.trimEnd()));
  return { torn, isOpen: !left.endsWith('\n') };
}

beforeEach(() => open());

/** Records waited for others. */
const afterDelay = (): Promise<void> => timers.fire(5);
/** The trail tries again after a failure. */
const retry = (): Promise<void> => timers.fire(200);

const append = (...names: string[]): void => {
  for (const name of names) trail.append('result', { name });
};
const names = (content = disk.content): unknown[] =>
  recordsIgnoringTorn(content).map(
    ({ audit, name, lost: gap }) => name ?? (typeof gap === 'number' ? `gap ${gap}` : audit),
  );
const linesOf = (content: string): string[] => content.split(/(?<=\n)/).filter((line) => line !== '');
const defect = (contents = [...disk.earlier, disk.content]) =>
  verifyFiles(contents.map(linesOf), { keys: [testAuditKey, otherAuditKey], heads: heads.slice(-1) }).defect;

describe('records', () => {
  it('are written in order, those that arrive during a write together', async () => {
    await afterDelay();
    const gate = Promise.withResolvers<void>();
    disk.hang = gate.promise;
    append('a');
    await afterDelay();
    append('b', 'c');
    append('d');
    gate.resolve();
    await trail.close(1_000);
    expect([names(), disk.writes]).toEqual([['start', 'a', 'b', 'c', 'd', 'stop'], 3]);
    expect([defect(), disk.closed, heads.at(-1)?.sequence]).toEqual([undefined, true, 6]);
  });

  it('wait up to 1 MiB, and are written in parts of a quarter of that', async () => {
    const text = 'x'.repeat(125_000);
    for (let count = 0; count < 8; count += 1) append(text);
    expect(lost).toBe(0);
    append(text);
    expect(lost).toBe(1);
    await afterDelay();
    expect([names().length, disk.writes]).toEqual([10, 3]);
  });

  it('that a request waits for are confirmed after they are written', async () => {
    const gate = Promise.withResolvers<void>();
    disk.hang = gate.promise;
    let isConfirmed = false;
    const confirmed = trail.confirm('intent', { name: 'a' }).then((result) => (isConfirmed = result));
    await nextTurn();
    expect([isConfirmed, disk.writes]).toEqual([false, 1]);
    gate.resolve();
    expect(await confirmed).toBe(true);
    expect(names()).toEqual(['start', 'a']);
  });

  it('are not accepted after the trail is closed', async () => {
    await trail.close(1_000);
    append('late');
    expect(await trail.confirm('intent', { name: 'later' })).toBe(false);
    await afterDelay();
    expect([names(), lost]).toEqual([['start', 'stop'], 1]);
  });
});

it('a trail that could not write in time writes nothing after it is closed', async () => {
  await nextTurn();
  const closed = trail.close(0);
  // The timeout is over before the event loop comes to the write.
  const end = performance.now() + 5;
  while (performance.now() < end);
  expect(await closed).toBe(2);
  await nextTurn();
  expect([disk.writes, disk.closed, lost]).toEqual([0, true, 2]);
});

describe('a full disk', () => {
  beforeEach(() => {
    disk.space = 0;
  });

  it('delays records, and the line that it cut off is completed first', async () => {
    disk.space = 300;
    append('a', 'b', 'c');
    await afterDelay();
    await retry();
    expect(failures).toEqual(['ENOSPC', 'ENOSPC']);
    expect([trail.failing, disk.content.length]).toEqual([true, 300]);
    disk.space = Number.POSITIVE_INFINITY;
    await retry();
    append('d');
    await trail.close(1_000);
    expect(names()).toEqual(['start', 'a', 'b', 'c', 'd', 'stop']);
    expect([defect(), lost]).toEqual([undefined, 0]);
  });

  it('fails at once for requests that wait, and their records are left out', async () => {
    expect(await trail.confirm('intent', { name: 'a' })).toBe(false);
    // Nothing says that records are written again.
    expect(heads).toEqual([]);
    const writes = disk.writes;
    expect(await trail.confirm('intent', { name: 'b' })).toBe(false);
    expect(disk.writes).toBe(writes);
    disk.space = Number.POSITIVE_INFINITY;
    await retry();
    expect(await trail.confirm('intent', { name: 'c' })).toBe(true);
    expect([names(), lost, defect()]).toEqual([['start', 'c'], 0, undefined]);
  });

  it('does not confirm a record that is written in part, though it is completed later', async () => {
    disk.space = 300;
    const results = ['a', 'b'].map((name) => trail.confirm('intent', { name }));
    expect(await Promise.all(results)).toEqual([false, false]);
    disk.space = Number.POSITIVE_INFINITY;
    await retry();
    append('c');
    await trail.close(1_000);
    expect([names(), defect()]).toEqual([['start', 'a', 'c', 'stop'], undefined]);
  });

  it('leaves a gap record with the number of records for which there was no room', async () => {
    open(2_000);
    disk.space = 0;
    for (let count = 0; count < 20; count += 1) append(`n${count}`);
    await afterDelay();
    append('late');
    expect(lost).toBeGreaterThan(10);
    disk.space = Number.POSITIVE_INFINITY;
    await retry();
    append('after');
    await trail.close(1_000);
    const kept = names().filter((name) => typeof name === 'string' && name.startsWith('n')).length;
    expect(kept + lost).toBe(21);
    expect(names().slice(-3)).toEqual([`gap ${lost}`, 'after', 'stop']);
    expect(defect()).toBeUndefined();
  });

  it('does not keep the process from stopping', async () => {
    append('a');
    await afterDelay();
    const began = performance.now();
    // The start record, a, and the stop record.
    expect(await trail.close(5_000)).toBe(3);
    expect([performance.now() - began < 1_000, lost, disk.closed]).toEqual([true, 3, true]);
    expect(timers.count).toBe(0);
  });
});

describe('a disk that hangs', () => {
  it('fails for requests that wait, and for others at once, until it continues', async () => {
    const gate = Promise.withResolvers<void>();
    disk.hang = gate.promise;
    const confirmed = trail.confirm('intent', { name: 'a' });
    await nextTurn();
    await timers.fire(1_000);
    expect(await confirmed).toBe(false);
    expect([trail.failing, failures]).toEqual([true, ['timeout']]);
    expect(await trail.confirm('intent', { name: 'b' })).toBe(false);
    append('c');
    gate.resolve();
    await nextTurn();
    expect(trail.failing).toBe(false);
    expect(await trail.confirm('intent', { name: 'd' })).toBe(true);
    expect([names(), defect()]).toEqual([['start', 'a', 'c', 'd'], undefined]);
  });

  it('does not keep the process from stopping, and what it has not written counts as lost', async () => {
    disk.hang = new Promise(() => {});
    append('a');
    await afterDelay();
    append('b');
    expect(await trail.close(100)).toBe(4);
    expect([lost, disk.closed, timers.count]).toEqual([4, false, 0]);
  });

  it.each([
    ['that is being written', false],
    ['that waits for a write', true],
  ])('fails for a request when the process stops with its record %s', async (_name, writesBefore) => {
    disk.hang = new Promise(() => {});
    if (writesBefore) {
      append('a');
      await afterDelay();
    }
    const confirmed = trail.confirm('intent', { name: 'b' });
    await nextTurn();
    await trail.close(10);
    expect(await Promise.race([confirmed, nextTurn('still waiting')])).toBe(false);
  });
});

it('a record that is written but not synchronized with the disk is not confirmed, and not written again', async () => {
  disk.confirms = false;
  expect(await trail.confirm('intent', { name: 'a' })).toBe(false);
  disk.confirms = true;
  await nextTurn();
  await retry();
  expect(await trail.confirm('intent', { name: 'b' })).toBe(true);
  expect([names(), defect()]).toEqual([['start', 'a', 'b'], undefined]);
});

describe('another file', () => {
  it('begins with a start record that follows the last record of the file before', async () => {
    append('a');
    await afterDelay();
    disk.isReplaced = true;
    append('b');
    await trail.close(1_000);
    expect(disk.earlier.map((content) => names(content))).toEqual([['start', 'a']]);
    expect(names()).toEqual(['start', 'b', 'stop']);
    expect(recordsOf(disk.content)[0]).toMatchObject({ seq: 3, continued: true });
    expect(defect()).toBeUndefined();
  });

  it('begins at once on a signal, without a record that waits', async () => {
    await afterDelay();
    disk.isReplaced = true;
    trail.refresh();
    await nextTurn();
    expect([disk.earlier.length, heads.length]).toEqual([1, 2]);
    expect(names()).toEqual(['start']);
  });

  it('takes the place of one whose last record was written in part: that record counts as lost', async () => {
    disk.space = 600;
    append('a', 'b', 'c');
    await afterDelay();
    [disk.isReplaced, disk.space] = [true, Number.POSITIVE_INFINITY];
    await retry();
    await trail.close(1_000);
    expect(lost).toBe(1);
    expect(disk.earlier.map((content) => names(content))[0]).toEqual(['start', 'a']);
    expect(names()).toEqual(['start', 'c', 'gap 1', 'stop']);
    expect(defect()).toBeUndefined();
  });

  it('has a gap record for all records of one that was incomplete in the file before', async () => {
    open(3_000);
    disk.space = 0;
    append(...Array.from({ length: 12 }, (_, at) => `n${at}`));
    await afterDelay();
    const dropped = lost;
    expect(dropped).toBeGreaterThan(1);
    // Everything but the end of the gap record.
    disk.space = Number.POSITIVE_INFINITY;
    await retry();
    const whole = disk.content;
    open(3_000);
    disk.space = 0;
    append(...Array.from({ length: 12 }, (_, at) => `n${at}`));
    await afterDelay();
    disk.space = whole.length - 40;
    await retry();
    [disk.isReplaced, disk.space] = [true, Number.POSITIVE_INFINITY];
    await retry();
    await trail.close(1_000);
    expect(lost).toBe(dropped);
    expect(new Set(names())).toEqual(new Set([`gap ${dropped}`, 'start', 'stop']));
    expect(defect()).toBeUndefined();
  });

  it('takes the place of one whose last record lacks only its line feed: that record is whole', async () => {
    append('a');
    await afterDelay();
    const size = disk.content.length;
    open();
    append('a');
    disk.space = size - 1;
    await afterDelay();
    [disk.isReplaced, disk.space] = [true, Number.POSITIVE_INFINITY];
    await retry();
    await trail.close(1_000);
    expect([lost, defect()]).toEqual([0, undefined]);
    expect(names()).toEqual(['start', 'stop']);
  });

  /** Starts behind a torn record. @param missing bytes that the start record has no space for */
  async function startBehindTorn(missing: number): Promise<void> {
    const left = '{"audit":"start","seq":1';
    open(undefined, left);
    await afterDelay();
    const first = disk.content.length;
    open(undefined, left);
    disk.space = first - left.length - missing;
    await afterDelay();
  }

  it('does not name again what an earlier process left, once a whole record is behind that', async () => {
    await startBehindTorn(1);
    [disk.isReplaced, disk.space] = [true, Number.POSITIVE_INFINITY];
    await retry();
    await trail.close(1_000);
    const [start] = recordsOf(disk.content);
    expect(start).toMatchObject({ audit: 'start', seq: 2, continued: true });
    expect(start).not.toHaveProperty('torn');
    expect([lost, defect()]).toEqual([0, undefined]);
  });

  it('names what was left after the last whole record only', async () => {
    await startBehindTorn(50);
    append('a');
    // The rest of the start record, and a part of the next one.
    disk.space = 50 + 10;
    await retry();
    [disk.isReplaced, disk.space] = [true, Number.POSITIVE_INFINITY];
    await retry();
    await trail.close(1_000);
    expect(recordsOf(disk.content)[0]).toMatchObject({ audit: 'start', continued: true, torn: 10 });
    expect([lost, defect()]).toEqual([1, undefined]);
  });

  it('is looked for on a signal, and nothing is written if there is none', async () => {
    await afterDelay();
    const { writes } = disk;
    trail.refresh();
    await nextTurn();
    await nextTurn();
    expect([disk.writes, failures]).toEqual([writes, []]);
  });

  it('that cannot be opened counts as a failed write', async () => {
    disk.refreshError = Object.assign(new Error('x'), { code: 'ENOENT' });
    expect(await trail.confirm('intent', { name: 'a' })).toBe(false);
    expect(failures).toEqual(['ENOENT']);
    disk.refreshError = undefined;
    await retry();
    expect(names()).toEqual(['start']);
  });
});

it('another key is used from a start record on', async () => {
  append('a');
  await afterDelay();
  trail.refresh(otherAuditKey);
  // Another signal before the first one has had its effect.
  trail.refresh();
  append('b');
  await trail.close(1_000);
  expect(recordsOf(disk.content).map(({ audit, key }) => [audit, key])).toEqual([
    ['start', testAuditKey.id],
    ['result', testAuditKey.id],
    ['start', otherAuditKey.id],
    ['result', otherAuditKey.id],
    ['stop', otherAuditKey.id],
  ]);
  expect(defect()).toBeUndefined();
});

it('whatever the disk does, the file is a correct trail, and each record is in it or in a gap record', async () => {
  const steps = fc.array(
    fc.oneof(
      fc.record({ space: fc.integer({ min: 0, max: 2_000 }) }),
      fc.record({ records: fc.integer({ min: 1, max: 5 }) }),
      fc.record({ replaced: fc.constant(true) }),
      fc.record({ retried: fc.constant(true) }),
    ),
    { maxLength: 12 },
  );
  await fc.assert(
    fc.asyncProperty(
      steps,
      fc.constantFrom('', '{"audit":"start",', '{"audit":"start",\n'),
      async (all, left) => {
        open(3_000, left);
        let appended = 0;
        for (const step of all) {
          if ('space' in step) disk.space = step.space;
          else if ('replaced' in step) disk.isReplaced = true;
          else if ('retried' in step) await retry();
          else for (let count = 0; count < step.records; count += 1, appended += 1) append(`n${appended}`);
          await afterDelay();
        }
        disk.space = Number.POSITIVE_INFINITY;
        if (await trail.close(1_000)) throw new Error('not written');
        const contents = [...disk.earlier, disk.content];
        expect(defect(contents)).toBeUndefined();
        const records = contents.flatMap((content) => recordsIgnoringTorn(content));
        const gaps = records.reduce((sum, { lost: gap }) => sum + (typeof gap === 'number' ? gap : 0), 0);
        const written = records.filter(({ name }) => name !== undefined);
        expect(gaps).toBe(lost);
        expect(new Set(written.map(({ name }) => name)).size).toBe(written.length);
        expect(written.length + gaps).toBeGreaterThanOrEqual(appended);
      },
    ),
    {
      numRuns: 1_000,
      // The first record is written in two parts, after what an earlier process left.
      examples: [
        [
          [{ space: 267 }, { records: 1 }, { space: 44 }, { retried: true }, { replaced: true }],
          '{"audit":"start",\n',
        ],
      ],
    },
  );
}, 60_000);

/** The last line of a file that was replaced may be incomplete, or lack only its line feed. */
function recordsIgnoringTorn(content: string) {
  const end = content.lastIndexOf('\n') + 1;
  const isWhole = parseRecord(Buffer.from(content.slice(end))) !== undefined;
  const lines = isWhole ? `${content}\n` : content.slice(0, end);
  return recordsOf(lines.replace('{"audit":"start",\n', ''));
}
