import { expect, it } from '@jest/globals';
import { entryOf, Journal, VerificationTrace } from '../../../src/simulator/journal.ts';

it('the journal drops the oldest entries, and counts them', () => {
  const journal = new Journal(2);
  for (const status of [200, 403, 500]) {
    const content = { status, type: '', body: '' };
    journal.record(entryOf({ method: 'POST', path: '/' }, new VerificationTrace(), { content }, 0));
  }
  expect(journal.entries().map(({ id, status }) => [id, status])).toEqual([
    [2, 403],
    [3, 500],
  ]);
  expect(journal.total).toBe(3);
});
