import { expect, it } from '@jest/globals';
import { LruMap } from '../../../src/util/lru-map.ts';

it('evicts and returns the least recently used value; get and set count as uses', () => {
  const map = new LruMap<number>(2);
  expect(map.set('a', 1)).toBeUndefined();
  expect(map.set('b', 2)).toBeUndefined();
  expect(map.get('a')).toBe(1);
  expect(map.set('c', 3)).toBe(2);
  expect(map.set('a', 4)).toBeUndefined();
  expect(map.set('d', 5)).toBe(3);
  expect([...map.values()]).toEqual([4, 5]);
});

it('does not count peek and replace as uses', () => {
  const map = new LruMap<number>(2);
  map.set('a', 1);
  map.set('b', 2);
  expect(map.peek('a')).toBe(1);
  map.replace('a', 3);
  map.replace('c', 4);
  expect([...map.values()]).toEqual([3, 2]);
  expect(map.set('d', 5)).toBe(3);
});

it('has room again after a delete, which returns the value', () => {
  const map = new LruMap<number>(1);
  map.set('a', 1);
  expect(map.delete('a')).toBe(1);
  expect(map.delete('a')).toBeUndefined();
  expect(map.set('b', 2)).toBeUndefined();
});

it('accepts the names of Object.prototype as ordinary keys', () => {
  const map = new LruMap<number>(3);
  expect(map.get('__proto__')).toBeUndefined();
  map.set('__proto__', 1);
  expect(map.get('__proto__')).toBe(1);
  expect(map.get('constructor')).toBeUndefined();
});
