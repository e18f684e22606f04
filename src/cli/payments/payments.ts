import { group } from '../shared/command.ts';

/** What became of payments. None of its commands sends one. */
export const payments = group('payments', [
  [
    'query',
    'Query the payments of unknown outcome, and say what to do about each',
    async () => (await import('./query.ts')).queryPayments,
  ],
  ['show', 'Show who claimed an order ID', async () => (await import('./claims.ts')).showClaim],
  [
    'release',
    'Release a claimed order ID, after a person decided',
    async () => (await import('./claims.ts')).releaseClaim,
  ],
]);
