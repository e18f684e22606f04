import { expect, it } from '@jest/globals';
import { MemoryStore } from '../../../src/once/memory-store.ts';
import { StoreUnavailable } from '../../../src/once/store.ts';

const report = () => {};

it('keeps a claim for its time, and then takes another one', async () => {
  let now = 0;
  const store = new MemoryStore({ ttl: 100, monotonic: () => now, report });
  expect(await store.claim('a', 'first')).toBeUndefined();
  now = 99;
  expect(await store.claim('a', 'second')).toBe('first');
  expect(await store.find('a')).toBe('first');
  now = 100;
  expect(await store.claim('a', 'second')).toBeUndefined();
});

it('replaces and removes exactly the claim that is named', async () => {
  const store = new MemoryStore({ ttl: 100, monotonic: () => 0, report });
  await store.claim('a', 'first');
  await store.replace('a', 'other');
  expect(await store.find('a')).toBe('first');
  await store.replace('a', 'first', 'ended');
  await store.replace('a', 'first');
  expect(await store.find('a')).toBe('ended');
  await store.replace('a', 'ended');
  expect(await store.find('a')).toBeUndefined();
});

it('takes no more claims when it is full, rather than forget one', async () => {
  let now = 0;
  const states: boolean[] = [];
  const store = new MemoryStore({ ttl: 100, monotonic: () => now, max: 2, report: (up) => states.push(up) });
  await store.claim('a', 'x');
  await store.claim('b', 'x');
  await expect(store.claim('c', 'x')).rejects.toThrow(StoreUnavailable);
  expect(await store.claim('a', 'y')).toBe('x');
  now = 100;
  expect(await store.claim('c', 'x')).toBeUndefined();
  expect(states).toEqual([true, true, false, true]);
});
