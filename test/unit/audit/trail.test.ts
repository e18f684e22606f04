import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import type { Head } from '../../../src/audit/chain.ts';
import { type AuditOutput, AuditTrail, type WriteResult } from '../../../src/audit/trail.ts';
import { otherAuditKey, recordsOf, testAuditKey, verifyFiles } from '../../support/audit.ts';
import { ManualClock } from '../../support/stub-vault/clock.ts';

/** A disk that fails as a test wants. */
class Disk implements AuditOutput {
  content = '';
  /** Contents of earlier files. */
  readonly earlier: string[] = [];
  /** Bytes that still fit. */
  space = Number.POSITIVE_INFINITY;
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

  nameOf(number: number): string {
    return `file-${number}`;
  }

  async begin(): Promise<void> {
    await nextTurn();
    this.earlier.push(this.content);
    this.content = '';
  }

  async close(): Promise<void> {
    this.closed = true;
  }
}

let disk: Disk;
let time: ManualClock;
let trail: AuditTrail;
let heads: Head[];
let lost: number;
let failures: string[];

function open(options: { capacity?: number; fileBytes?: number } = {}): void {
  [disk, heads, lost, failures] = [new Disk(), [], 0, []];
  time = new ManualClock();
  trail = new AuditTrail({
    key: testAuditKey,
    instance: 'pod-a',
    output: disk,
    observer: {
      recordsWritten: (head) => void heads.push(head),
      recordsLost: (count) => (lost += count),
      writeFailed: (cause) => void failures.push(cause),
    },
    process: () => ({}),
    clock: () => 0,
    setTimer: time.setTimer,
    ...options,
  });
}

beforeEach(() => open());

/** Writes wait until the returned function is called. */
function hang(): () => void {
  const gate = Promise.withResolvers<void>();
  disk.hang = gate.promise;
  return gate.resolve;
}

/** Resolves after the write that this begins, unless the disk hangs. */
const pass = (milliseconds: number): Promise<void> => {
  time.advance(milliseconds);
  return nextTurn();
};
/** Records waited for others. */
const afterDelay = (): Promise<void> => pass(5);
/** The trail tries again after a failure. */
const retry = (): Promise<void> => pass(200);
const makeRoom = (): Promise<void> => {
  disk.space = Number.POSITIVE_INFINITY;
  return retry();
};

const append = (...names: string[]): void => {
  for (const name of names) trail.append('result', { name });
};
const names = (content = disk.content): unknown[] =>
  recordsOf(content).map(({ audit, name }) => name ?? audit);
const linesOf = (content: string): string[] => content.split(/(?<=\n)/).filter((line) => line !== '');
const defect = (contents = [...disk.earlier, disk.content]) =>
  verifyFiles(contents.map(linesOf), { keys: [testAuditKey, otherAuditKey], heads: heads.slice(-1) }).defect;

describe('records', () => {
  it('are written in order, those that arrive during a write together', async () => {
    await afterDelay();
    const resume = hang();
    append('a');
    await afterDelay();
    append('b', 'c');
    append('d');
    resume();
    await trail.close(1_000);
    expect([names(), disk.writes]).toEqual([['start', 'a', 'b', 'c', 'd', 'stop'], 3]);
    expect([defect(), disk.closed, heads.at(-1)?.sequence]).toEqual([undefined, true, 6]);
  });

  it('wait up to 1 MiB', async () => {
    const text = 'x'.repeat(125_000);
    for (let count = 0; count < 9; count += 1) append(text);
    expect(lost).toBe(0);
    append(text);
    expect(lost).toBe(1);
    await afterDelay();
    expect(names()).toHaveLength(11);
  });

  it('that a request waits for are confirmed after they are written', async () => {
    const resume = hang();
    let isConfirmed = false;
    const confirmed = trail.confirm('intent', { name: 'a' }).then((result) => (isConfirmed = result));
    await nextTurn();
    expect([isConfirmed, disk.writes]).toEqual([false, 1]);
    resume();
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

  it('fails at once for requests that wait; the record of the first one follows later', async () => {
    expect(await trail.confirm('intent', { name: 'a' })).toBe(false);
    // Nothing says that records are written again.
    expect([heads, failures]).toEqual([[], ['ENOSPC']]);
    const writes = disk.writes;
    expect(await trail.confirm('intent', { name: 'b' })).toBe(false);
    expect(disk.writes).toBe(writes);
    await makeRoom();
    expect(await trail.confirm('intent', { name: 'c' })).toBe(true);
    expect([names(), lost, defect()]).toEqual([['start', 'a', 'c'], 0, undefined]);
  });

  it('does not confirm a record that is written in part, though it is completed later', async () => {
    disk.space = 300;
    const results = ['a', 'b'].map((name) => trail.confirm('intent', { name }));
    expect(await Promise.all(results)).toEqual([false, false]);
    await makeRoom();
    append('c');
    await trail.close(1_000);
    expect([names(), defect()]).toEqual([['start', 'a', 'b', 'c', 'stop'], undefined]);
  });

  it('does not keep the process from stopping', async () => {
    append('a');
    await afterDelay();
    const began = performance.now();
    // The start record, a, and the stop record.
    expect(await trail.close(5_000)).toBe(3);
    expect([performance.now() - began < 1_000, lost, disk.closed]).toEqual([true, 3, true]);
    expect(time.nextTimer).toBeUndefined();
  });
});

describe('a disk that hangs', () => {
  it('fails for requests that wait, and for others at once, until it continues', async () => {
    const resume = hang();
    const confirmed = trail.confirm('intent', { name: 'a' });
    await nextTurn();
    await pass(1_000);
    expect(await confirmed).toBe(false);
    expect([trail.failing, failures]).toEqual([true, ['timeout']]);
    expect(await trail.confirm('intent', { name: 'b' })).toBe(false);
    append('c');
    resume();
    await nextTurn();
    expect(trail.failing).toBe(false);
    expect(await trail.confirm('intent', { name: 'd' })).toBe(true);
    expect([names(), defect()]).toEqual([['start', 'a', 'c', 'd'], undefined]);
  });

  it('does not keep the process from stopping, and what it has not written counts as lost', async () => {
    hang();
    append('a');
    await afterDelay();
    append('b');
    expect(await trail.close(100)).toBe(4);
    expect([lost, disk.closed]).toEqual([4, false]);
  });

  it.each([
    ['that is being written', false],
    ['that waits for a write', true],
  ])('fails for a request when the process stops with its record %s', async (_name, writesBefore) => {
    hang();
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

it('another file begins with a start record that has its name and follows the last record, and so does another key', async () => {
  append('a');
  trail.next(otherAuditKey);
  append('b');
  await trail.close(1_000);
  expect(disk.earlier.map((content) => names(content))).toEqual([['start', 'a']]);
  expect(recordsOf(disk.earlier.join('')).map(({ key }) => key)).toEqual(Array(2).fill(testAuditKey.id));
  expect(recordsOf(disk.content)).toMatchObject([
    { audit: 'start', seq: 3, continued: true, file: 'file-2', key: otherAuditKey.id },
    { name: 'b', key: otherAuditKey.id },
    { audit: 'stop', key: otherAuditKey.id },
  ]);
  expect(defect()).toBeUndefined();
});

it('another file begins when one has its full size', async () => {
  open({ fileBytes: 1_000 });
  append(...Array.from({ length: 10 }, (_, at) => `n${at}`));
  await trail.close(1_000);
  const contents = [...disk.earlier, disk.content];
  expect(contents.length).toBeGreaterThan(2);
  for (const content of contents) expect(content.length).toBeLessThan(1_600);
  for (const content of contents.slice(0, -1)) expect(content.length).toBeGreaterThan(600);
  expect(defect()).toBeUndefined();
});

it('whatever the disk does, the files are a correct trail, and each record is in it or in a gap record', async () => {
  const steps = fc.array(
    fc.oneof(
      fc.record({ space: fc.integer({ min: 0, max: 2_000 }) }),
      fc.record({ records: fc.integer({ min: 1, max: 5 }) }),
      fc.record({ next: fc.constant(true) }),
      fc.record({ retried: fc.constant(true) }),
    ),
    { maxLength: 12 },
  );
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      open({ capacity: 3_000 });
      let appended = 0;
      for (const step of all) {
        if ('space' in step) disk.space = step.space;
        else if ('next' in step) trail.next();
        else if ('retried' in step) await retry();
        else for (let count = 0; count < step.records; count += 1, appended += 1) append(`n${appended}`);
        await afterDelay();
      }
      disk.space = Number.POSITIVE_INFINITY;
      if (await trail.close(1_000)) throw new Error('not written');
      expect(defect()).toBeUndefined();
      const records = [...disk.earlier, disk.content].flatMap((content) => recordsOf(content));
      const gaps = records.reduce((sum, { lost: gap }) => sum + (typeof gap === 'number' ? gap : 0), 0);
      const written = records.filter(({ name }) => name !== undefined);
      // The stop record may not fit.
      const isStopped = records.at(-1)?.['audit'] === 'stop';
      expect(written.length + lost).toBe(appended + (isStopped ? 0 : 1));
      expect(isStopped ? gaps : lost).toBe(lost);
    }),
    { numRuns: 500 },
  );
}, 60_000);
