import { expect, it } from '@jest/globals';
import { ProxyError } from '../../../src/errors.ts';
import { withTrueOutcome } from '../../../src/proxy/outcome.ts';

it.each([{ readOnly: false }, {}])('a request that was written is not to be sent again: %o', (operation) => {
  const error = new ProxyError('key-source-unavailable', 'Send it again later.');
  const { detail } = withTrueOutcome(error, { writtenAttempts: 1, ...operation });
  expect(detail).toMatch(/ The request may have been processed\. .*; do not send it again\.$/);
});
