import { expect, it } from '@jest/globals';
import { entryOf, Journal, VerificationTrace } from '../../../src/simulator/journal.ts';

it('the journal drops the oldest entries, and counts them', () => {
  const journal = new Journal(2);
  for (const status of [200, 403, 500, 502]) {
    const content = { status, type: '', body: '' };
    journal.record(entryOf({ method: 'POST', path: '/' }, new VerificationTrace(), { content }, 0));
  }
  expect(journal.entries().map(({ id, status }) => [id, status])).toEqual([
    [3, 500],
    [4, 502],
  ]);
  expect(journal.total).toBe(4);
});

it('a card number that was sent as the consumer key is not in the journal', () => {
  const trace = new VerificationTrace();
  trace.login = '4111111111111111';
  const content = { status: 403, type: '', body: '' };
  const { login } = entryOf({ method: 'POST', path: '/' }, trace, { content }, 0);
  expect(login).not.toContain('4111111111111111');
});
