import { openSync, readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it, jest } from '@jest/globals';
import { LogDestination } from '../../../src/observability/log-destination.ts';
import { harness } from '../../support/harness.ts';
import { Pipe } from '../../support/pipe.ts';

const starts = harness();

function startOn(descriptor: number) {
  const clock = { now: 0 };
  const destination = new LogDestination({ descriptor, monotonic: () => clock.now });
  const recovered: number[] = [];
  destination.onRecovery = (lines) => void recovered.push(lines);
  return { destination, clock, recovered };
}

function startOnPipe() {
  const pipe = starts.closing(new Pipe());
  return { pipe, ...startOn(pipe.descriptor) };
}

const startOnFullDisk = () => startOn(openSync('/dev/full', 'w'));

function startOnFile() {
  const path = starts.folder().file('log', '');
  return { text: () => readFileSync(path, 'utf8'), ...startOn(openSync(path, 'w')) };
}

const line = (number: number): string => `${String(number).padStart(4, '0')}:${'ä'.repeat(250)}\n`;
const bytes = Buffer.byteLength(line(0));
/** More than the pipe, the buffer and one line hold. */
const tooMany = Math.ceil((65_536 + 1_048_576) / bytes) + 100;

/** Reads until everything is written. @returns the numbers of the lines */
async function drain({ pipe, destination }: ReturnType<typeof startOnPipe>): Promise<number[]> {
  const read: Buffer[] = [];
  const written = destination.written();
  const reading = setInterval(() => {
    read.push(pipe.read());
  }, 1);
  await written;
  clearInterval(reading);
  const lines = Buffer.concat([...read, pipe.read()])
    .toString()
    .split('\n')
    .slice(0, -1);
  expect(lines.filter((one) => !/^\d+:ä{250}$/.test(one))).toEqual([]);
  return lines.map((one) => Number.parseInt(one, 10));
}

describe('log lines', () => {
  it('are gathered for 20 ms and written together, unless one is urgent', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'performance'] });
    try {
      const { text, destination } = startOnFile();
      destination.write('a\n');
      await jest.advanceTimersByTimeAsync(19);
      destination.write('b\n');
      expect(text()).toBe('');
      await jest.advanceTimersByTimeAsync(1);
      await destination.written();
      expect(text()).toBe('a\nb\n');
      destination.write('c\n');
      destination.hurry();
      destination.write('d\n');
      destination.hurry();
      await destination.written();
      expect(text()).toBe('a\nb\nc\nd\n');
    } finally {
      jest.useRealTimers();
    }
  });

  it('wait while the reader has stalled, and are written whole and in order', async () => {
    const started = startOnPipe();
    for (let number = 0; number < 1_000; number += 1) started.destination.write(line(number));
    await wait(100);
    expect(await drain(started)).toEqual(Array.from({ length: 1_000 }, (_, number) => number));
    expect([started.destination.dropped, started.recovered]).toEqual([0, []]);
  });

  it('for which there is no room are dropped and counted, which is told once the others are written', async () => {
    const started = startOnPipe();
    const { destination, recovered, clock } = started;
    let count = 0;
    for (; count < tooMany; count += 1) {
      destination.write(line(count));
      if (count % 20 === 0) await wait(0);
    }
    expect(destination.dropped).toBeGreaterThan(0);
    expect([destination.state().logLinesDropped, recovered]).toEqual([true, []]);
    const numbers = await drain(started);
    expect(numbers).toEqual(numbers.map((_, number) => number));
    expect(numbers.length + destination.dropped).toBe(count);
    expect(recovered).toEqual([destination.dropped]);
    clock.now = 60_000;
    expect(destination.state().logLinesDropped).toBe(false);
    destination.write('again\n');
    await destination.written();
    expect([started.pipe.read().toString(), recovered]).toEqual(['again\n', [destination.dropped]]);
  });

  it('of a full disk wait in bounded memory; further ones are dropped', async () => {
    const { destination } = startOnFullDisk();
    for (let count = 0; count < tooMany; count += 1) destination.write(line(count));
    destination.hurry();
    await wait(50);
    expect(destination.dropped).toBe(tooMany - Math.ceil(1_048_576 / bytes));
  });

  it('are stalled if nothing could be written for five seconds, until it can', async () => {
    const started = startOnPipe();
    const { destination, clock } = started;
    clock.now = 100_000;
    for (let count = 0; count < 200; count += 1) destination.write(line(count));
    await wait(50);
    clock.now += 5_000;
    expect(destination.state().logStalled).toBe(false);
    destination.write(line(200));
    clock.now += 1;
    expect(destination.state().logStalled).toBe(true);
    await drain(started);
    expect(destination.state().logStalled).toBe(false);
  });
});

describe('a flush', () => {
  it.each([
    ['a stalled reader', startOnPipe],
    ['a full disk', startOnFullDisk],
  ])('of %s gives up after its time', async (_what, start) => {
    const { destination } = start();
    for (let count = 0; count < 1_000; count += 1) destination.write(line(count));
    const began = performance.now();
    await destination.flush(100);
    expect(performance.now() - began).toBeGreaterThan(95);
    expect(performance.now() - began).toBeLessThan(5_000);
  });
});
