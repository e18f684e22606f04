import { createHash } from 'node:crypto';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { describe, expect, it } from '@jest/globals';
import {
  type AuthenticatedCaller,
  createAuthenticator,
  type PresentedCredentials,
  presentedCredentials,
} from '../../../src/auth/authenticate.ts';
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

type Presented = Partial<PresentedCredentials>;

function authenticate(callers: CallerConfig[], presented: Presented): Promise<AuthenticatedCaller> {
  return createAuthenticator({ callers })({
    authorization: undefined,
    certificate: undefined,
    revoked: false,
    ...presented,
  });
}

async function who(callers: CallerConfig[], presented: Presented): Promise<string> {
  return authenticate(callers, presented).then(
    ({ caller }) => caller.name,
    (error: { reason?: string }) => error.reason ?? 'no error',
  );
}

const fingerprint = 'AB:CD';
const certificate = { uris: ['spiffe://a/b'], dnsNames: [], fingerprint };
const named = (names: { uris?: string[]; dnsNames?: string[] }): Presented => ({
  certificate: { uris: [], dnsNames: [], fingerprint, ...names },
});

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
    expect(await who(known, named({ dnsNames: ['x', 'b.INTERNAL'] }))).toBe('dns');
  });

  it('is not found by a URI in another case or by a name of the other kind', async () => {
    expect(await who(known, named({ uris: ['SPIFFE://a/b'] }))).toBe('caller-unknown');
    expect(await who(known, named({ uris: ['b.internal'], dnsNames: ['spiffe://a/b'] }))).toBe(
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

describe('the credential of a caller', () => {
  it('is the start of the hash of its token', async () => {
    const { credential } = await authenticate(known, { authorization: 'Bearer first', certificate });
    expect(credential).toEqual({ kind: 'token', tokenHash: sha256('first').slice(0, 8) });
  });

  it.each([
    ['spiffe://a/b', named({ uris: ['spiffe://x', 'spiffe://a/b'], dnsNames: ['b.internal'] })],
    ['b.INTERNAL', named({ dnsNames: ['x.internal', 'b.INTERNAL'] })],
  ])('is the name %s of its certificate, with the fingerprint', async (name, presented) => {
    const { credential } = await authenticate(known, presented);
    expect(credential).toEqual({
      kind: 'certificate',
      certificateName: name,
      certificateFingerprint: fingerprint,
    });
  });

  it('is anonymous without any', async () => {
    expect((await authenticate(open, {})).credential).toEqual({ kind: 'anonymous' });
  });
});

it.each(['Bearer wrong', 'Bearer', 'Bearer a b'])(
  'the demo ignores an unknown bearer token, and no known one: "%s"',
  async (authorization) => {
    const demo = createAuthenticator({ callers: open, acceptUnknownTokens: true });
    const whose = async (presented: Presented) =>
      (await demo({ authorization, certificate: undefined, revoked: false, ...presented })).caller.name;
    expect(await whose({})).toBe('anyone');
    expect(await whose({ certificate })).toBe('uri');
    expect(await whose({ authorization: 'Bearer first' })).toBe('token');
  },
);

it.each([
  ['CERT_REVOKED', true],
  // There is no valid list that could vouch for it.
  ['CRL_HAS_EXPIRED', true],
  ['UNABLE_TO_GET_CRL', true],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', false],
])('a client certificate that TLS rejects with %s counts as revoked: %j', async (code, revoked) => {
  const socket = Object.assign(new TLSSocket(new Socket()), { authorizationError: code });
  const request = Object.assign(new IncomingMessage(socket), { headers: { authorization: 'Bearer first' } });
  const presented = presentedCredentials(request, Date.now());
  socket.destroy();
  expect(presented).toEqual({ authorization: 'Bearer first', certificate: undefined, revoked });
  // Not even the token counts then.
  expect(await who(open, presented)).toBe(revoked ? 'caller-unknown' : 'token');
});
