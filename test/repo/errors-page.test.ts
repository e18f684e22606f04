import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { errorTable } from '../../src/errors.ts';
import { root, sourcesIn } from '../support/sources.ts';

const page = readFileSync(join(root, 'docs/errors.md'), 'utf8');
const created = sourcesIn('src/**/*.ts').flatMap(({ text }) =>
  [...text.matchAll(/(?:new ProxyError|super)\(\s*'([a-z-]+)'[^;]*?\);/g)].map(([call, reason = '']) => ({
    call,
    reason,
  })),
);

it('says which statuses have Retry-After, as the code does', () => {
  const [, ...stated] = /\*\*Retry-After\.\*\* Errors with status (\d+) or (\d+) /.exec(page) ?? [];
  const retryable = Object.entries(errorTable).filter(([, { status }]) => stated.includes(String(status)));
  expect(retryable.length).toBeGreaterThan(1);
  for (const [reason] of retryable) {
    const calls = created.filter((one) => one.reason === reason);
    expect(calls).not.toEqual([]);
    expect(calls.filter(({ call }) => !call.includes('retryAfter'))).toEqual([]);
  }
  const others = created.filter(({ reason }) => !retryable.some(([known]) => known === reason));
  expect(others.filter(({ call }) => call.includes('retryAfter'))).toEqual([]);
});
