import { beforeEach, describe, expect, it } from '@jest/globals';
import { NoRoom, Room, Slots } from '../../../src/util/slots.ts';
import { settled } from '../keys/scripted-source.ts';

describe('a room', () => {
  it('holds as many as its size, half of them for one holder', () => {
    const room = new Room(4);
    const leave = room.enter('a');
    room.enter('a');
    expect(room.enter('a')).toBeUndefined();
    expect(room.enter('b')).toBeDefined();
    expect(room.enter('c')).toBeDefined();
    expect(room.enter('d')).toBeUndefined();
    leave?.();
    expect(room.enter('a')).toBeDefined();
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
    expect(new Room(1).enter('a')).toBeDefined();
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

  it('refuse what finds no room before anything is started', async () => {
    const slots = newSlots(1, 1);
    void slots.run(work('1'));
    void slots.run(work('2'));
    expect(() => slots.run(work('3'))).toThrow(NoRoom);
    await end('1');
    await end('2');
    expect(started).toEqual(['1', '2']);
  });

  it('leave a holder half of what runs and half of what waits, and pass a slot to the next that may have it', async () => {
    const slots = newSlots(2, 4);
    for (const name of ['a1', 'a2', 'a3']) void slots.run(work(name), 'a');
    expect(() => slots.run(work('a4'), 'a')).toThrow(NoRoom);
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
    await expect(slots.run(work('2'))).rejects.toMatchObject({ reason: 'late' });
    const third = slots.run(work('3'));
    await end('1');
    await end('3');
    expect(await third).toBe('3');
    expect(started).toEqual(['1', '3']);
  });
});
