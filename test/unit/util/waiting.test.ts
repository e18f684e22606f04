import { beforeEach, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { Backoff } from '../../../src/util/backoff.ts';
import { setTimer } from '../../../src/util/clock.ts';
import { abortable, SingleFlight } from '../../../src/util/promises.ts';
import { SlotList } from '../../../src/util/slot-list.ts';
import { NoRoom, Room, Slots } from '../../../src/util/slots.ts';
import { settled } from '../../support/virtual-clock.ts';

const range = { initial: 1000, max: 10_000 };

describe('backing off', () => {
  it('doubles each wait up to the maximum', () => {
    const backOff = new Backoff(range);
    let now = 0;
    const waits = Array.from({ length: 6 }, () => {
      backOff.recordFailure(now);
      const wait = backOff.remaining(now);
      now += wait;
      return wait;
    });
    expect(waits).toEqual([1000, 2000, 4000, 8000, 10_000, 10_000]);
  });

  it('has jitter of up to half, so that instances do not retry together', () => {
    const backOff = new Backoff(range, () => 0.999);
    backOff.recordFailure(0);
    expect(backOff.remaining(0)).toBeCloseTo(500.5);
  });

  it('is not shortened by an attempt that began earlier and fails later', () => {
    const backOff = new Backoff(range);
    backOff.recordFailure(6000);
    backOff.recordFailure(0);
    expect(backOff.remaining(6000)).toBe(1000);
  });

  it('starts with the initial wait again after a success', () => {
    const backOff = new Backoff(range);
    backOff.recordFailure(0);
    backOff.recordFailure(0);
    backOff.reset();
    expect(backOff.remaining(0)).toBe(0);
    backOff.recordFailure(0);
    expect(backOff.remaining(0)).toBe(1000);
  });

  it('holds for each key alone, and remembers only so many', () => {
    const backOff = new Backoff(range);
    const others = Array.from({ length: 998 }, (_, index) => String(index));
    for (const key of ['a', 'b', 'a', ...others, 'c']) backOff.recordFailure(0, key);
    expect(['a', 'b', 'c', 'd'].map((key) => backOff.remaining(0, key))).toEqual([2000, 0, 1000, 0]);
    backOff.reset('c');
    expect(['a', 'c'].map((key) => backOff.isDue(0, key))).toEqual([false, true]);
    backOff.reset();
    expect(backOff.isDue(0, 'a')).toBe(true);
  });

  it('waits no longer than the maximum after any number of failures', () => {
    const backOff = new Backoff(range);
    for (let failure = 0; failure < 1_100; failure += 1) backOff.recordFailure(0);
    expect(backOff.remaining(0)).toBe(range.max);
  });

  it('uses timers that a lease of more than 24 days does not fire at once', async () => {
    let fired = false;
    const cancel = setTimer(() => {
      fired = true;
    }, 32 * 86_400_000);
    await new Promise((resolve) => setTimeout(resolve, 20));
    cancel();
    expect(fired).toBe(false);
  });
});

it('shares a run with the calls that come during it, also its failure, and begins a new one after it', async () => {
  const flight = new SingleFlight<number>();
  const { promise, reject } = Promise.withResolvers<number>();
  const first = flight.run(() => promise);
  const second = flight.run(() => Promise.resolve(2));
  expect([flight.running, second]).toEqual([first, first]);
  reject(new Error('failed'));
  await expect(second).rejects.toThrow('failed');
  expect(flight.running).toBeUndefined();
  expect(await flight.run(() => Promise.resolve(3))).toBe(3);
});

it('work that a signal aborts fails with the reason of the signal, also if that was aborted before', async () => {
  const never = new Promise<string>(() => {});
  const controller = new AbortController();
  const running = abortable(never, controller.signal);
  const reason = new Error('too late');
  controller.abort(reason);
  await expect(running).rejects.toBe(reason);
  await expect(abortable(never, controller.signal)).rejects.toBe(reason);
});

describe('a room', () => {
  it('holds as many as its size, half of them for one holder', () => {
    const room = new Room(4);
    const leave = room.enter('a');
    room.enter('a');
    const isIn = (holder: string): boolean => room.enter(holder) !== undefined;
    expect(['a', 'b', 'c', 'd'].map(isIn)).toEqual([false, true, true, false]);
    leave?.();
    expect(isIn('a')).toBe(true);
  });

  it('has three quarters for what several holders share, so that none of them takes it from the others', () => {
    const room = new Room(8);
    for (let count = 0; count < 4; count += 1) expect(room.enter('caller', 'login 1')).toBeDefined();
    expect(room.enter('caller', 'login 2')).toBeUndefined();
    expect(room.enter('other', 'login 1')).toBeDefined();
    expect(room.enter('another', 'login 1')).toBeDefined();
    expect(room.enter('other', 'login 1')).toBeUndefined();
    expect(room.enter('other', 'login 2')).toBeDefined();
  });

  it('of one has room for one holder, and one of none has no room', () => {
    const one = new Room(1.9);
    expect(one.enter('a')).toBeDefined();
    expect(one.enter('b')).toBeUndefined();
    expect(new Room(0).enter('a')).toBeUndefined();
  });
});

describe('slots', () => {
  let started: string[];
  let pending: Map<string, PromiseWithResolvers<string>>;
  let depths: number[];
  beforeEach(() => {
    [started, pending, depths] = [[], new Map(), []];
  });

  const newSlots = (size: number, queue: number): Slots =>
    new Slots({ size, queue, changed: (depth) => void depths.push(depth) });

  const work = (name: string) => (): Promise<string> => {
    started.push(name);
    const one = Promise.withResolvers<string>();
    pending.set(name, one);
    return one.promise;
  };

  async function end(name: string): Promise<void> {
    pending.get(name)?.resolve(name);
    await settled();
  }

  it('start the work at once while there is room, then in the order of the calls', async () => {
    const slots = newSlots(1, 2);
    const results = ['1', '2', '3'].map((name) => slots.run(work(name)));
    expect(started).toEqual(['1']);
    await end('1');
    expect(started).toEqual(['1', '2']);
    await end('2');
    await end('3');
    expect(await Promise.all(results)).toEqual(['1', '2', '3']);
    expect(depths).toEqual([1, 2, 1, 0]);
  });

  it('leave a holder half of what runs and half of what waits, and pass a slot to the next that may have it', async () => {
    const slots = newSlots(2, 4);
    for (const name of ['a1', 'a2', 'a3']) void slots.run(work(name), 'a');
    await expect(slots.run(work('a4'), 'a')).rejects.toThrow(NoRoom);
    void slots.run(work('b1'), 'b');
    void slots.run(work('b2'), 'b');
    expect(started).toEqual(['a1', 'b1']);
    await end('b1');
    expect(started).toEqual(['a1', 'b1', 'b2']);
    await end('a1');
    expect(started).toEqual(['a1', 'b1', 'b2', 'a2']);
  });

  it('of work that fails are free again', async () => {
    const slots = newSlots(1, 1);
    const failing = slots.run(() => Promise.reject(new Error('failed')));
    const next = slots.run(async () => 'next');
    await expect(failing).rejects.toThrow('failed');
    await expect(next).resolves.toBe('next');
  });

  it('end a wait in time, and its place is free again', async () => {
    const slots = new Slots({ size: 1, queue: 1, maxWait: 1 });
    void slots.run(work('1'));
    await expect(slots.run(work('2'))).rejects.toThrow(NoRoom);
    const third = slots.run(work('3'));
    await end('1');
    await end('3');
    expect(await third).toBe('3');
    expect(started).toEqual(['1', '3']);
  });
});

describe('a slot list', () => {
  it('holds the items that were added and not removed, in any order', () => {
    const leaving = fc.array(fc.option(fc.nat({ max: 20 }), { nil: undefined }), { maxLength: 60 });
    fc.assert(
      fc.property(leaving, (steps) => {
        const slots = new SlotList<number>();
        const expected = new Map<number, () => void>();
        for (const [name, step] of steps.entries()) {
          const [leaver, leave] = [...expected][step ?? Number.NaN] ?? [];
          if (leaver === undefined || leave === undefined) expected.set(name, slots.add(name));
          else {
            leave();
            expected.delete(leaver);
          }
          expect(slots.values().toSorted((a, b) => a - b)).toEqual([...expected.keys()]);
        }
      }),
    );
  });
});
