import { describe, expect, it } from '@jest/globals';
import { pathAdvice } from '../../../src/gateway/router.ts';

describe('the advice on a path without a route', () => {
  it.each([
    ['/sandbox/gw/api/v4/transfer/1/', 'Remove the slash at the end of the path.'],
    ['/', 'Begin the path with /{environment}/{product}/api/.'],
    ['/sandbox/gw//api/v4/transfer/1', 'Remove the empty segment from the path.'],
    ['/Sandbox/gw/api/v4/transfer/1', 'Check the capital letters in the path: paths are case-sensitive.'],
    ['/sandbox/gw/API/v4/transfer/1', 'Check the capital letters in the path: paths are case-sensitive.'],
    ['/api/v4/transfer/1', 'Put the environment and the product before /api/.'],
    [
      '/gw/api/v4/transfer/1',
      /^Put both the environment and the product before \/api\/: there is only one segment\.$/,
    ],
    ['/a/b/c/api/v4/transfer/1', 'Put nothing but the environment and the product before /api/.'],
    ['/sandbox/gw/v4/transfer/1', 'Begin the path with /{environment}/{product}/api/.'],
    [
      '/Gw/api/v4/',
      'Remove the slash at the end of the path. Check the capital letters in the path: paths are case-sensitive. Put both the environment and the product before /api/: there is only one segment.',
    ],
  ])('for %s says what to correct', (target, advice) => {
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
