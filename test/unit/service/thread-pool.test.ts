import { expect, it } from '@jest/globals';
import { signingConcurrency, sizeThreadPool } from '../../../src/service/thread-pool.ts';

it.each([
  [1, '5'],
  [2, '5'],
  [3, '6'],
  [8, '11'],
  [64, '11'],
])('%d cores: a pool of %s threads', (cores, size) => {
  const environment: NodeJS.ProcessEnv = {};
  sizeThreadPool(environment, cores);
  expect(environment['UV_THREADPOOL_SIZE']).toBe(size);
});

it("keeps the operator's size", () => {
  const environment = { UV_THREADPOOL_SIZE: '32' };
  sizeThreadPool(environment, 2);
  expect(environment.UV_THREADPOOL_SIZE).toBe('32');
});

it.each([
  [undefined, 2],
  ['4', 2],
  ['10', 8],
  ['3', 1],
  ['1', 1],
  ['0', 1],
  ['many', 1],
  ['5000', 1_022],
])('a pool of size %s makes %d signatures at once', (size, concurrency) => {
  expect(signingConcurrency(size)).toBe(concurrency);
});
