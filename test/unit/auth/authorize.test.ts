import { describe, expect, it } from '@jest/globals';
import { type AccessRequest, decide } from '../../../src/auth/authorize.ts';
import type { CallerConfig } from '../../../src/config/schema.ts';

type Grant = CallerConfig['allow'][number];

const accessRequest: AccessRequest = { environment: 'sandbox', operation: 'transfer', login: 'acme-1' };
const grant: Grant = { environments: ['sandbox'], operations: ['transfer'], logins: ['acme-1'] };

function allows(...allow: Grant[]): boolean {
  return decide({ name: 'x', mode: 'enforce', credentials: [], allow }, accessRequest) === 'allowed';
}

describe('an access request', () => {
  it('is denied without a grant', () => {
    expect(allows()).toBe(false);
  });

  it('is let through in a dry run, and said to be denied', () => {
    const caller: CallerConfig = { name: 'x', mode: 'dry-run', credentials: [], allow: [] };
    expect(decide(caller, accessRequest)).toBe('would-deny');
    expect(decide({ ...caller, allow: [grant] }, accessRequest)).toBe('allowed');
  });

  it('is allowed if one grant has its environment, operation and login', () => {
    expect(allows(grant)).toBe(true);
    expect(allows({ ...grant, environments: ['production', 'sandbox'] })).toBe(true);
    expect(allows({ environments: ['*'], operations: ['*'], logins: ['*'] })).toBe(true);
  });

  it.each([
    ['environment', { ...grant, environments: ['production'] }],
    ['operation', { ...grant, operations: ['order-status'] }],
    ['login', { ...grant, logins: ['acme'] }],
  ])('is not granted where its %s is missing', (_, other) => {
    expect(allows(other)).toBe(false);
  });

  it('is denied if only two grants together would cover it', () => {
    expect(allows({ ...grant, logins: ['beta'] }, { ...grant, operations: ['order-status'] })).toBe(false);
  });

  it.each([
    ['acme*', true],
    ['acme-*', true],
    ['acme-1*', true],
    ['*', true],
    ['acme-2*', false],
    ['ACME*', false],
    ['cme-1*', false],
  ])('has its login covered by %s: %s', (pattern, covered) => {
    expect(allows({ ...grant, logins: [pattern] })).toBe(covered);
  });

  it('has its login compared case-sensitively', () => {
    expect(allows({ ...grant, logins: ['ACME-1'] })).toBe(false);
    expect(allows({ ...grant, logins: ['Acme-1', 'aCME*'] })).toBe(false);
  });

  it('treats "*" as a wildcard only as the whole name, except in logins', () => {
    expect(allows({ ...grant, environments: ['sand*'] })).toBe(false);
    expect(allows({ ...grant, operations: ['trans*'] })).toBe(false);
  });
});
