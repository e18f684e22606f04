import { describe, expect, it } from '@jest/globals';
import { pathAdvice } from '../../../src/gateway/path-advice.ts';

describe('the advice on a path without a route', () => {
  it.each([
    ['/sandbox/gw/api/v4/transfer/1/', 'The path ends with a slash.'],
    ['/sandbox/gw//api/v4/transfer/1', 'The path has an empty segment.'],
    ['/Sandbox/gw/api/v4/transfer/1', 'The path has capital letters, and paths are case-sensitive.'],
    ['/sandbox/gw/API/v4/transfer/1', 'The path has capital letters, and paths are case-sensitive.'],
    ['/api/v4/transfer/1', /^The path has neither an environment nor a product before \/api\/\.$/],
    ['/gw/api/v4/transfer/1', /^The path has only one segment before \/api\/, so .* is missing\.$/],
    ['/a/b/c/api/v4/transfer/1', 'The path has more than an environment and a product before /api/.'],
    ['/sandbox/gw/v4/transfer/1', 'The path has no segment "api".'],
    [
      '/Gw/api/v4/',
      'The path ends with a slash; it has capital letters, and paths are case-sensitive; it has only one segment before /api/, so the environment or the product is missing.',
    ],
  ])('for %s names what is odd', (target, advice) => {
    const given = pathAdvice(target);
    if (typeof advice === 'string') expect(given).toBe(advice);
    else expect(given).toMatch(advice);
  });

  it.each([
    '/sandbox/gw/api/v4/transfr/1',
    '/nowhere/gw/api/v4/transfer/1',
    '/x/y/api/v2/get-balance/manager/ACME',
  ])('for %s, which has nothing odd, is none', (target) => {
    expect(pathAdvice(target)).toBeUndefined();
  });

  it.each(['/', '', '*', '//', '/%2e%2e/', `/${'a/'.repeat(8_000)}`])('does not repeat %j', (target) => {
    expect(pathAdvice(target)?.length).toBeLessThan(250);
  });
});
