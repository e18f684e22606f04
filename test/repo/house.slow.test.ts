import { expect, it } from '@jest/globals';
import { requestOf } from '../../scripts/measure-house.ts';
import { root } from '../support/sources.ts';

it('a request runs through no more files and calls than it has to', async () => {
  const counts = new Map((await requestOf(root)).map(([name, count]) => [name, Number(count)]));
  // The handler, the forwarder, the signature, the log and the metrics at least.
  expect(counts.get('files')).toBeGreaterThan(20);
  // It had grown to 433 calls in more files. What is above these needs a reason: the last two of the files show the order of
  // a payment, and notice a response about another one.
  expect(counts.get('files')).toBeLessThanOrEqual(52);
  expect(counts.get('calls')).toBeLessThanOrEqual(310);
}, 60_000);
