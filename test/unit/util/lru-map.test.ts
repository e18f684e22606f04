import { expect, it } from '@jest/globals';
import { LruMap } from '../../../src/util/lru-map.ts';

it('gives up what was used longest ago, by get or by set, and says what', () => {
  const map = new LruMap<number>(2);
  expect(map.set('a', 1)).toBeUndefined();
  expect(map.set('b', 2)).toBeUndefined();
  expect(map.get('a')).toBe(1);
  expect(map.set('c', 3)).toBe(2);
  expect(map.set('a', 4)).toBeUndefined();
  expect(map.set('d', 5)).toBe(3);
  expect([...map.values()]).toEqual([4, 5]);
});

it('keeps the order of use when a value is only looked at or replaced', () => {
  const map = new LruMap<number>(2);
  map.set('a', 1);
  map.set('b', 2);
  expect(map.peek('a')).toBe(1);
  map.replace('a', 3);
  map.replace('c', 4);
  expect([...map.values()]).toEqual([3, 2]);
  expect(map.set('d', 5)).toBe(3);
});

it('makes room when something is deleted, and says what', () => {
  const map = new LruMap<number>(1);
  map.set('a', 1);
  expect(map.delete('a')).toBe(1);
  expect(map.delete('a')).toBeUndefined();
  expect(map.set('b', 2)).toBeUndefined();
});

it('holds names that every object has as ordinary ones', () => {
  const map = new LruMap<number>(3);
  expect(map.get('__proto__')).toBeUndefined();
  map.set('__proto__', 1);
  expect(map.get('__proto__')).toBe(1);
  expect(map.get('constructor')).toBeUndefined();
});
