import { expect, it } from '@jest/globals';
import { configOf, digest, minimal, problemsOf } from './checking.ts';

const withAdmin = (fields: string): string => `${minimal}admin: { ${fields} }\n`;

it('the status needs no token and has no runbook unless the configuration has them', () => {
  const { tokenSha256, runbookUrl } = configOf(minimal).admin;
  expect([tokenSha256, runbookUrl]).toEqual([undefined, undefined]);
});

it('the token and the runbook of the status are those of the configuration', () => {
  const runbookUrl = 'https://wiki.example/countersign/runbook.md';
  const fields = `tokenSha256: ${digest}, runbookUrl: "${runbookUrl}"`;
  expect(configOf(withAdmin(fields)).admin).toMatchObject({ tokenSha256: digest, runbookUrl });
});

it.each([
  ['tokenSha256: "the token itself"', 'admin.tokenSha256: must be 64 lowercase hex digits'],
  [
    'tokenSha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    'admin.tokenSha256: is the digest of an empty token',
  ],
  ['runbookUrl: "javascript:alert(1)"', 'admin.runbookUrl: must be an absolute URL'],
  ['runbookUrl: runbook.md', 'admin.runbookUrl: must be an absolute URL'],
  ['runbookUrl: "https://wiki.example/runbook#top"', 'admin.runbookUrl: must not contain a fragment'],
])('%s is a problem', (fields, problem) => {
  expect(problemsOf(withAdmin(fields))).toEqual([expect.stringContaining(problem)]);
});
