import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { createAuthenticator, type PresentedCredentials } from '../../../src/auth/authenticate.ts';
import type { CallerConfig } from '../../../src/config/schema.ts';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

function caller(name: string, ...credentials: CallerConfig['credentials']): CallerConfig {
  return { name, mode: 'enforce', credentials, allow: [] };
}

const known = [
  caller('token', { tokenSha256: sha256('first') }, { tokenSha256: sha256('second') }),
  caller('uri', { certificateUri: 'spiffe://a/b' }),
  caller('dns', { certificateDns: 'B.Internal' }),
];
const open = [...known, caller('anyone', { anonymous: true })];

async function who(callers: CallerConfig[], presented: Partial<PresentedCredentials>): Promise<string> {
  const authenticate = createAuthenticator(callers);
  const whole = { authorization: undefined, certificate: undefined, ...presented };
  return authenticate(whole).then(
    ({ name }) => name,
    (error: { reason?: string }) => error.reason ?? 'no error',
  );
}

const certificate = { uris: ['spiffe://a/b'], dnsNames: [] };

describe('the caller', () => {
  it('is unknown if no space separates scheme and token', async () => {
    expect(await who(known, { authorization: 'Bearerfirst' })).toBe('caller-unknown');
    expect(await who(open, { authorization: 'Bearerfirst' })).toBe('anyone');
  });

  it.each(['Bearer first', 'bearer second', 'BEARER  first '])(
    'is found by the token in "%s"',
    async (authorization) => {
      expect(await who(known, { authorization })).toBe('token');
    },
  );

  it('is found by the names of a certificate, DNS names case-insensitively', async () => {
    expect(await who(known, { certificate })).toBe('uri');
    expect(await who(known, { certificate: { uris: [], dnsNames: ['x', 'b.INTERNAL'] } })).toBe('dns');
  });

  it('is not found by a URI in another case or by a name of the other kind', async () => {
    expect(await who(known, { certificate: { uris: ['SPIFFE://a/b'], dnsNames: [] } })).toBe(
      'caller-unknown',
    );
    expect(await who(known, { certificate: { uris: ['b.internal'], dnsNames: ['spiffe://a/b'] } })).toBe(
      'caller-unknown',
    );
  });

  it('is unknown without credentials, unless an anonymous caller is configured', async () => {
    expect(await who(known, {})).toBe('caller-unknown');
    expect(await who(open, {})).toBe('anyone');
    expect(await who([], {})).toBe('caller-unknown');
  });

  it.each(['Bearer wrong', 'Bearer', 'Bearer ', 'Bearer first second', 'Bearer first,', 'bearer\tfirst'])(
    'is unknown with "%s", even with a known certificate and an anonymous caller',
    async (authorization) => {
      expect(await who(open, { authorization, certificate })).toBe('caller-unknown');
    },
  );

  it('is found by the token if a certificate is presented as well', async () => {
    expect(await who(known, { authorization: 'Bearer first', certificate })).toBe('token');
  });

  it.each(['Basic Zmlyc3Q=', 'OAuth a="b"', ''])(
    'is not affected by "%s", which is not a bearer token',
    async (authorization) => {
      expect(await who(open, { authorization })).toBe('anyone');
      expect(await who(known, { authorization })).toBe('caller-unknown');
    },
  );
});
