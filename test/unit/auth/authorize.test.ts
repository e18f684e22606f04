import { expect, it } from '@jest/globals';
import { decide } from '../../../src/auth/authorize.ts';
import type { CallerConfig } from '../../../src/config/schema.ts';

type Grant = CallerConfig['allow'][number];

const grant: Grant = { environments: ['sandbox'], operations: ['transfer'], logins: ['acme-1'] };
const decided = (mode: CallerConfig['mode'], ...allow: Grant[]) =>
  decide(
    { name: 'x', mode, credentials: [], allow },
    { environment: 'sandbox', operation: 'transfer', login: 'acme-1' },
  );

it.each<[string, boolean, ...Grant[]]>([
  ['no grant', false],
  ['the grant of just that', true, grant],
  ['one of more environments', true, { ...grant, environments: ['production', 'sandbox'] }],
  ['one of everything', true, { environments: ['*'], operations: ['*'], logins: ['*'] }],
  ['one of another environment', false, { ...grant, environments: ['production'] }],
  ['one of another operation', false, { ...grant, operations: ['order-status'] }],
  ['one of another login', false, { ...grant, logins: ['acme'] }],
  ['one of the login in other letters', false, { ...grant, logins: ['Acme-1', 'aCME*'] }],
  ['two that only together cover it', false, { ...grant, logins: ['b'] }, { ...grant, operations: ['x'] }],
  ['a wildcard within an environment', false, { ...grant, environments: ['sand*'] }],
  ['a wildcard within an operation', false, { ...grant, operations: ['trans*'] }],
  ...['acme*', 'acme-*', 'acme-1*'].map((login): [string, boolean, Grant] => [
    `a login prefix ${login}`,
    true,
    { ...grant, logins: [login] },
  ]),
  ...['acme-2*', 'ACME*', 'cme-1*'].map((login): [string, boolean, Grant] => [
    `a login prefix ${login}`,
    false,
    { ...grant, logins: [login] },
  ]),
])(
  'an access request with %s is allowed: %s; a dry run lets it through and says so',
  (_, allowed, ...allow) => {
    expect(decided('enforce', ...allow)).toBe(allowed ? 'allowed' : 'denied');
    expect(decided('dry-run', ...allow)).toBe(allowed ? 'allowed' : 'would-deny');
  },
);
