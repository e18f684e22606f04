import { expect, it } from '@jest/globals';
import { unsafeSettings } from '../../../src/cli/unsafe-settings.ts';

it.each([
  [{ NODE_TLS_REJECT_UNAUTHORIZED: '0' }, 1],
  [{ NODE_TLS_REJECT_UNAUTHORIZED: '1' }, 0],
  [{ NODE_DEBUG: 'http' }, 1],
  [{ NODE_DEBUG: '' }, 0],
  [{}, 0],
])('the settings %j are unsafe in %d ways', (settings, count) => {
  expect(unsafeSettings((name) => new Map(Object.entries(settings)).get(name))).toHaveLength(count);
});
