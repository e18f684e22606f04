import { describe, expect, it } from '@jest/globals';
import { VaultError } from '../../../../src/keys/vault/errors.ts';
import { parseVaultResponse } from '../../../../src/keys/vault/http.ts';

function errorOf(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): VaultError {
  try {
    parseVaultResponse(status, headers, typeof body === 'string' ? body : JSON.stringify(body));
  } catch (error) {
    if (error instanceof VaultError) return error;
  }
  throw new Error('no error');
}

describe('a Vault response', () => {
  it('is parsed if it is a success, and undefined if it has no body', () => {
    expect(parseVaultResponse(200, {}, '{"data":1}')).toEqual({ data: 1 });
    expect(parseVaultResponse(204, {}, '')).toBeUndefined();
  });

  it.each([
    ['HTML with status 200', 200, '<html>', 'invalid-response'],
    ['another success', 201, { data: 1 }, 'invalid-response'],
    ['404 without errors', 404, { errors: [] }, 'not-found'],
    ['404 with an error', 404, { errors: ['no handler for route'] }, 'no-route'],
    ['404 of something else', 404, '<html>', 'invalid-response'],
    ['404 about a deleted version', 404, { data: { data: null, metadata: {} } }, 'deleted'],
    ['400', 400, { errors: ['missing data'] }, 'rejected'],
    ['400 about check-and-set', 400, { errors: ['check-and-set parameter did not match'] }, 'cas-mismatch'],
    ['403', 403, { errors: ['permission denied'] }, 'denied'],
    ['503', 503, { errors: ['Vault is sealed'] }, 'sealed'],
    ['a status that Vault does not have', 418, {}, 'invalid-response'],
  ])('that is %s is an error of its kind', (_, status, body, kind) => {
    expect(errorOf(status, body)).toMatchObject({ kind, status });
  });

  it.each([
    ['5', 5],
    ['0', 0],
    ['600', 600],
    ['601', 600],
    ['999999999', 600],
    ['1000000000', undefined],
    ['-1', undefined],
    ['Wed, 21 Oct 2026 07:28:00 GMT', undefined],
  ])('with Retry-After: %s means a wait of %s seconds', (value, seconds) => {
    expect(errorOf(429, {}, { 'retry-after': value }).retryAfter).toBe(seconds);
  });
});
