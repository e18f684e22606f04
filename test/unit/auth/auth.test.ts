import { hash } from 'node:crypto';
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
import { decide } from '../../../src/auth/authorize.ts';
import { presentsToken, tokenDigest } from '../../../src/auth/bearer-token.ts';
import { parseSubjectAltName } from '../../../src/auth/client-certificate.ts';
import { type CallerConfig } from '../../../src/config/schema.ts';
import { tokenCredential } from '../../support/config.ts';

function caller(name: string, ...credentials: CallerConfig['credentials']): CallerConfig {
  return { name, mode: 'enforce', credentials, allow: [] };
}

const known = [
  caller('token', tokenCredential('first'), tokenCredential('second.~+/-_=')),
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
const named = (names: { uris?: string[]; dnsNames?: string[] }) => ({
  certificate: { uris: [], dnsNames: [], fingerprint, ...names },
});
const { certificate } = named({ uris: ['spiffe://a/b'] });

describe('the caller', () => {
  it.each<[string, Presented, string, string]>([
    ['a token', { authorization: 'Bearer first' }, 'token', 'token'],
    ['a second one, in lower case', { authorization: 'bearer second.~+/-_=' }, 'token', 'token'],
    ['blanks around it', { authorization: 'BEARER  first ' }, 'token', 'token'],
    ['a token beside a certificate', { authorization: 'Bearer first', certificate }, 'token', 'token'],
    ['a URI', { certificate }, 'uri', 'uri'],
    ['a DNS name in any case', named({ dnsNames: ['x', 'b.INTERNAL'] }), 'dns', 'dns'],
    ['a URI in another case', named({ uris: ['SPIFFE://a/b'] }), 'caller-unknown', 'anyone'],
    ['names of the other kind', named({ uris: ['b.internal'] }), 'caller-unknown', 'anyone'],
    ['nothing', {}, 'caller-unknown', 'anyone'],
    ['no space behind the scheme', { authorization: 'Bearerfirst' }, 'caller-unknown', 'anyone'],
    ['another scheme', { authorization: 'Basic Zmlyc3Q=' }, 'caller-unknown', 'anyone'],
    ['OAuth', { authorization: 'OAuth a="b"' }, 'caller-unknown', 'anyone'],
    ['an empty header', { authorization: '' }, 'caller-unknown', 'anyone'],
  ])('by %s', async (_, presented, name, nameWithAnyone) => {
    expect([await who(known, presented), await who(open, presented)]).toEqual([name, nameWithAnyone]);
    expect(await who([], presented)).toBe('caller-unknown');
  });

  it.each([
    'Bearer wrong',
    'Bearer',
    'Bearer ',
    'Bearer first second',
    'Bearer first,',
    'Bearer "first"',
    'bearer\tfirst',
  ])('is unknown with "%s", even with a known certificate and an anonymous caller', async (authorization) => {
    expect(await who(open, { authorization, certificate })).toBe('caller-unknown');
  });

  it.each<[object, Presented]>([
    [
      { kind: 'token', tokenHash: hash('sha256', 'first').slice(0, 8) },
      { authorization: 'Bearer first', certificate },
    ],
    [
      { kind: 'certificate', certificateName: 'spiffe://a/b', certificateFingerprint: fingerprint },
      named({ uris: ['spiffe://x', 'spiffe://a/b'], dnsNames: ['b.internal'] }),
    ],
    [
      { kind: 'certificate', certificateName: 'b.INTERNAL', certificateFingerprint: fingerprint },
      named({ dnsNames: ['x.internal', 'b.INTERNAL'] }),
    ],
    [{ kind: 'anonymous' }, {}],
  ])('has the credential %j', async (credential, presented) => {
    expect((await authenticate(open, presented)).credential).toEqual(credential);
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

describe('the token of the admin port', () => {
  const token = 'a-token.with~signs+/0815=';
  const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;

  it.each([
    ['a bearer token', `Bearer ${token}`, true],
    ['a password', basic(`operator:${token}`), true],
    ['a password without a user name', basic(`:${token}`), true],
    ['a password with the scheme in other letters', basic(`x:${token}`).replace('Basic', 'bAsIC '), true],
    ['nothing', undefined, false],
    ['another password', basic('x:another'), false],
    ['the user name', basic(`${token}:`), false],
    ['a password without a colon', basic(token), false],
    ['a longer token', `Bearer ${token}=`, false],
    ['its own digest', `Bearer ${tokenDigest(token)}`, false],
    ['another scheme', `Digest ${token}`, false],
    ['what is not base64', `Basic ${token}!`, false],
  ])('as %s: %j, %s', (_how, header, accepted) => {
    expect(presentsToken(header, tokenDigest(token))).toBe(accepted);
  });

  it('may have a colon, and its digest is what sha256sum prints', () => {
    expect(presentsToken(basic('x:a:b:c'), tokenDigest('a:b:c'))).toBe(true);
    // printf %s abc | sha256sum
    expect(tokenDigest('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
  });
});

describe('grants', () => {
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
    [
      'two, of which only the other has it',
      false,
      { ...grant, environments: ['x'] },
      { ...grant, logins: ['b'] },
    ],
    ['a wildcard within an environment', false, { ...grant, environments: ['sand*'] }],
    ['a wildcard within an operation', false, { ...grant, operations: ['trans*'] }],
    ['a login prefix', true, { ...grant, logins: ['acme-1*'] }],
    ['another login prefix', false, { ...grant, logins: ['acme-2*', 'cme-1*'] }],
  ])(
    'an access request with %s is allowed: %s; a dry run lets it through and says so',
    (_, allowed, ...allow) => {
      expect(decided('enforce', ...allow)).toBe(allowed ? 'allowed' : 'denied');
      expect(decided('dry-run', ...allow)).toBe(allowed ? 'allowed' : 'would-deny');
    },
  );
});

// The texts are in the form of Node's X509Certificate.subjectAltName, which quotes names with commas, quotes or
// control characters, as JSON does (CVE-2021-44532).
describe('the names of a certificate', () => {
  it.each<[string | undefined, string[], string[]]>([
    [
      'URI:spiffe://prod/ns/pay/sa/billing, DNS:billing.internal, IP Address:10.0.0.1, DNS:b.internal',
      ['spiffe://prod/ns/pay/sa/billing'],
      ['billing.internal', 'b.internal'],
    ],
    ['DNS:a.test, URI:"x, y", DNS:b.test', [], ['a.test', 'b.test']],
    // A space belongs to the name.
    ['URI:spiffe://prod/billing , DNS: b.test ', ['spiffe://prod/billing '], [' b.test ']],
    [undefined, [], []],
  ])('of %j are its URIs and DNS names', (text, uris, dnsNames) => {
    expect(parseSubjectAltName(text)).toEqual({ uris, dnsNames });
  });

  it.each([
    ['a DNS name with a URI behind a comma', 'DNS:"evil.test, URI:spiffe://prod/ns/pay/sa/billing"'],
    ['an escaped quote before the comma', String.raw`DNS:"evil.test\", URI:spiffe://prod/ns/pay/sa/billing"`],
    ['a URI that holds a DNS name', 'URI:"http://evil.test/a, DNS:billing.internal"'],
    ['a directory name', 'DirName:"CN=x, URI:spiffe://prod, DNS:billing.internal"'],
    ['an e-mail address', 'email:"URI:spiffe://prod, DNS:a"@evil.test'],
    ['another kind that ends in DNS', 'othername:SRVName:DNS:billing.internal'],
    ['a kind in lower case', 'dns:billing.internal, uri:spiffe://prod'],
    ['a quote that is never closed', 'DNS:"evil.test, URI:spiffe://prod'],
  ])('exclude text inside another name: %s', (_, text) => {
    const { uris, dnsNames } = parseSubjectAltName(text);
    expect([...uris, ...dnsNames].filter((name) => /prod|billing/.test(name))).toEqual([]);
  });
});
