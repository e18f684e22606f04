import { createHmac, createPublicKey, createSign, generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { CompactEncrypt, CompactSign } from 'jose';
import jsonwebtoken from 'jsonwebtoken';
import { harness } from '../support/harness.ts';
import { jwtCaller, jwtConfig, queryWith, sameBytes } from '../support/jwt.ts';
import { listen } from '../support/listening.ts';
import { issuerKey, OidcServer, startOidcServer, usualClaims } from '../support/oidc-server.ts';
import { startProxy, type TestProxy } from '../support/service.ts';
import { until } from '../support/until.ts';

const starts = harness(afterAll);
const rsa = issuerKey('rsa', 'RS256');
const ec = issuerKey('ec', 'ES256');
/** Published, but of no algorithm that the configuration accepts. */
const p384 = issuerKey('p384', 'ES384');
const stranger = issuerKey('rsa', 'RS256');
const weak = issuerKey('weak', 'RS256', 1024);
const publicPem = createPublicPem(rsa.privateKey);

let issuer: OidcServer;
let other: OidcServer;
let canaryUrl = '';
const canaryRequests: string[] = [];
let proxy: TestProxy;

beforeAll(async () => {
  issuer = starts.closing(await startOidcServer({ keys: [rsa, ec, p384, weak] }));
  issuer.published = {
    keys: [...issuer.keys.map(({ jwk }) => jwk), { kty: 'oct', k: 'c2VjcmV0', kid: 'oct' }],
  };
  other = starts.closing(await startOidcServer({ keys: [issuerKey('other')] }));
  const canary = await listen(
    createServer((request, response) => {
      canaryRequests.push(request.url ?? '');
      response.end(JSON.stringify({ keys: [stranger.jwk] }));
    }),
  );
  starts.closing(canary);
  canaryUrl = `http://127.0.0.1:${canary.port}`;
  const gateway = await starts.recordingGateway();
  const { jwtIssuers, callers } = jwtConfig(issuer);
  proxy = await startProxy({
    gateway: gateway.url,
    config: {
      jwtIssuers: { ...jwtIssuers, other: { issuer: other.url, audience: 'countersign' } },
      // A wrong token must not fall back to it.
      callers: [
        ...callers,
        jwtCaller('reports', { subject: 'reports' }, 'other'),
        { name: 'anyone', credentials: [{ anonymous: true }] },
      ],
    },
  });
  starts.atEnd(proxy.stop);
  await until(() => issuer.fetches() === 1 && other.fetches() === 1);
});

const json = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const raw = (text: string): string => Buffer.from(text).toString('base64url');
const claims = (changes: object = {}): Record<string, unknown> => ({
  ...usualClaims(issuer.url),
  ...changes,
});
const header = (changes: object = {}): object => ({ alg: 'RS256', kid: 'rsa', ...changes });
const now = (): number => Math.floor(Date.now() / 1000);

/** Signed as it is, whatever it says. */
function signed(head: string, payload: string, { privateKey } = rsa): string {
  const signature = createSign('sha256').update(`${head}.${payload}`).sign(privateKey).toString('base64url');
  return `${head}.${payload}.${signature}`;
}
const withHeader = (changes: object): string => signed(json(header(changes)), json(claims()));
const withClaims = (changes: object): string => signed(json(header()), json(claims(changes)));
const withPayload = (text: string): string => signed(json(header()), raw(text));
/** With a claim that JSON.stringify cannot write. */
const withRaw = (name: string, text: string): string =>
  withPayload(JSON.stringify(claims({ [name]: 'PLACE' })).replace('"PLACE"', text));
const hmac = (alg: string, secret: string | Buffer, changes: object = {}): string => {
  const input = `${json({ alg, kid: 'rsa', ...changes })}.${json(claims())}`;
  const hash = `sha${alg.slice(2)}`;
  return `${input}.${createHmac(hash, secret).update(input).digest('base64url')}`;
};
const parts = (): [string, string, string] => {
  const [head = '', payload = '', signature = ''] = withClaims({}).split('.');
  return [head, payload, signature];
};

type Make = () => string | Promise<string>;

const wrong: Readonly<Record<string, readonly [problem: string, make: Make]>> = {
  // algorithms
  'no algorithm': ['jwt-malformed', () => jsonwebtoken.sign(claims(), null, { algorithm: 'none' })],
  'alg none with a signature': ['jwt-algorithm', () => withHeader({ alg: 'none' })],
  'alg nOnE': ['jwt-algorithm', () => withHeader({ alg: 'nOnE' })],
  'alg rs256 in lower case': ['jwt-algorithm', () => withHeader({ alg: 'rs256' })],
  'an empty alg': ['jwt-malformed', () => withHeader({ alg: '' })],
  'no alg': ['jwt-malformed', () => withHeader({ alg: undefined })],
  'alg as a list': ['jwt-malformed', () => withHeader({ alg: ['RS256'] })],
  'alg null': ['jwt-malformed', () => withHeader({ alg: null })],
  'HS256 with the public key as the secret': ['jwt-algorithm', () => hmac('HS256', publicPem)],
  'HS256 with the JWK as the secret': ['jwt-algorithm', () => hmac('HS256', JSON.stringify(rsa.jwk))],
  'HS512 with an empty secret': ['jwt-algorithm', () => hmac('HS512', '')],
  'HS256 with a secret that the issuer published': [
    'jwt-algorithm',
    () => hmac('HS256', Buffer.from('secret'), { kid: 'oct' }),
  ],
  'an algorithm that is not configured': ['jwt-algorithm', () => issuer.sign({}, {}, p384)],
  'RS512 instead of RS256': ['jwt-algorithm', () => issuer.sign({}, { alg: 'RS512' }, rsa)],
  'PS256 with the same key': ['jwt-algorithm', () => issuer.sign({}, { alg: 'PS256' }, rsa)],
  'ES256 with an RSA key': ['jwt-key', () => withHeader({ alg: 'ES256' })],
  'RS256 with the ID of an EC key': ['jwt-key', () => withHeader({ kid: 'ec' })],
  'RS256 with an RSA key of 1024 bits': [
    'jwt-key',
    () => signed(json(header({ kid: 'weak' })), json(claims()), weak),
  ],
  // signatures
  'no signature': ['jwt-malformed', () => `${parts()[0]}.${parts()[1]}.`],
  'a signature that is cut': ['jwt-signature', () => withClaims({}).slice(0, -6)],
  'a signature with a changed bit': ['jwt-signature', () => flipped(withClaims({}))],
  'a signature of other claims': [
    'jwt-signature',
    () => [...parts().slice(0, 2), withClaims({ sub: 'x' }).split('.')[2]].join('.'),
  ],
  'a signature of zeros': [
    'jwt-signature',
    () => `${json({ alg: 'ES256', kid: 'ec' })}.${json(claims())}.${Buffer.alloc(64).toString('base64url')}`,
  ],
  'the key of a stranger under a known ID': ['jwt-signature', () => issuer.sign({}, {}, stranger)],
  'the key of another issuer': ['jwt-key', () => issuer.sign({ iss: other.url }, { kid: 'rsa' }, rsa)],
  'the issuer of another key': ['jwt-key', () => other.sign({ iss: issuer.url })],
  // key IDs
  'an unknown kid': ['jwt-key', () => withHeader({ kid: 'unknown' })],
  'an empty kid': ['jwt-key', () => withHeader({ kid: '' })],
  'a kid that is a path': ['jwt-key', () => withHeader({ kid: '../../../../dev/null' })],
  'a kid that is a URL': ['jwt-key', () => withHeader({ kid: `${canaryUrl}/kid` })],
  'a kid that is SQL': ['jwt-key', () => withHeader({ kid: "' UNION SELECT 'key' --" })],
  'a kid that is a property of every object': ['jwt-key', () => withHeader({ kid: '__proto__' })],
  'a kid that is an object': ['jwt-header', () => withHeader({ kid: { jwk: stranger.jwk } })],
  'a kid that is a number': ['jwt-header', () => withHeader({ kid: 0 })],
  'a kid that is null': ['jwt-header', () => withHeader({ kid: null })],
  'a kid of 257 characters': ['jwt-header', () => withHeader({ kid: 'k'.repeat(257) })],
  // headers that bring or name a key, or change the meaning
  'an embedded jwk': [
    'jwt-header',
    () => signed(json(header({ jwk: stranger.jwk })), json(claims()), stranger),
  ],
  'the right jwk embedded': ['jwt-header', () => withHeader({ jwk: rsa.jwk })],
  'a jku': ['jwt-header', () => signed(json(header({ jku: `${canaryUrl}/jku` })), json(claims()), stranger)],
  'the right jku': ['jwt-header', () => withHeader({ jku: `${issuer.url}/keys` })],
  'an x5u': ['jwt-header', () => signed(json(header({ x5u: `${canaryUrl}/x5u` })), json(claims()), stranger)],
  'an x5c': ['jwt-header', () => withHeader({ x5c: ['MIIB'] })],
  'a crit of nothing': ['jwt-header', () => withHeader({ crit: [] })],
  'a crit': ['jwt-header', () => withHeader({ crit: ['exp'], exp: 1 })],
  b64: ['jwt-header', () => withHeader({ b64: false, crit: ['b64'] })],
  'b64 without crit': ['jwt-header', () => withHeader({ b64: true })],
  'an encryption': ['jwt-header', () => withHeader({ enc: 'A256GCM' })],
  'an ephemeral key': ['jwt-header', () => withHeader({ epk: ec.jwk })],
  'the type of a logout token': ['jwt-header', () => withHeader({ typ: 'logout+jwt' })],
  'a type that is no text': ['jwt-header', () => withHeader({ typ: ['JWT'] })],
  zip: ['jwt-header', () => withHeader({ zip: 'DEF' })],
  // structure
  'a JWT in a JWT': ['jwt-header', async () => nested()],
  'a JWT in a JWT that does not say so': ['jwt-malformed', () => signed(json(header()), raw(withClaims({})))],
  'an encrypted token': ['jwt-malformed', async () => encrypted()],
  'one dot': ['jwt-malformed', () => 'a.b'],
  'only dots': ['jwt-malformed', () => '..'],
  'a fourth part': ['jwt-malformed', () => `${withClaims({})}.e30`],
  'nothing but dots and a payload': ['jwt-malformed', () => `.${json(claims())}.`],
  padding: ['jwt-malformed', () => `${withClaims({})}=`],
  'a base64 alphabet that is not for URLs': ['jwt-malformed', () => `${raw('{"alg":"RS256"}')}.a+/a.AAAA`],
  'a header of base64 with surplus bits': ['jwt-malformed', () => surplusBits()],
  'a header that is no JSON': ['jwt-malformed', () => signed(raw('alg=RS256'), json(claims()))],
  'a header that is a list': ['jwt-malformed', () => signed(json([]), json(claims()))],
  'a header that is null': ['jwt-malformed', () => signed(json(null), json(claims()))],
  'claims that are a list': ['jwt-malformed', () => withPayload('[]')],
  'claims that are null': ['jwt-malformed', () => withPayload('null')],
  'claims that are a text': ['jwt-malformed', () => withPayload('"billing"')],
  'no claims': ['jwt-malformed', () => withPayload('')],
  'claims with a byte order mark': ['jwt-malformed', () => withPayload(`\ufeff${JSON.stringify(claims())}`)],
  'claims in UTF-16': [
    'jwt-malformed',
    () => signed(json(header()), Buffer.from(JSON.stringify(claims()), 'utf16le').toString('base64url')),
  ],
  'bytes that are no UTF-8': [
    'jwt-malformed',
    () =>
      signed(
        json(header()),
        Buffer.from(JSON.stringify(claims({ x: '\u00ff' })), 'latin1').toString('base64url'),
      ),
  ],
  'a token of 9,000 characters': ['jwt-malformed', () => withClaims({ padding: 'x'.repeat(6500) })],
  'claims that are nested 3,000 times': [
    'jwt-malformed',
    () => withRaw('x', '['.repeat(1500) + ']'.repeat(1500)),
  ],
  'claims that are nested 9 times': ['jwt-malformed', () => withRaw('x', '[[[[[[[[1]]]]]]]]')],
  // names that occur twice
  'two subjects': ['jwt-malformed', () => withRaw('x', '1,"sub":"billing"')],
  'two expiries': ['jwt-malformed', () => withRaw('x', `1,"exp":${now() + 9999}`)],
  'two subjects, one with an escape': [
    'jwt-malformed',
    () => withRaw('x', String.raw`1,"\u0073ub":"billing"`),
  ],
  'a name twice in a nested claim': ['jwt-malformed', () => withRaw('x', '{"a":[{"b":1,"b":2}]}')],
  'two algorithms': [
    'jwt-malformed',
    () => signed(raw('{"alg":"none","kid":"rsa","alg":"RS256"}'), json(claims())),
  ],
  // time
  'an expiry that has passed': ['jwt-expired', () => withClaims({ exp: now() - 31 })],
  'an expiry of 0': ['jwt-expired', () => withClaims({ exp: 0 })],
  'an expiry before 1970': ['jwt-expired', () => withClaims({ exp: -1 })],
  'no expiry': ['jwt-claim', () => withClaims({ exp: undefined })],
  'an expiry as a text': ['jwt-claim', () => withClaims({ exp: String(now() + 300) })],
  'an expiry of null': ['jwt-claim', () => withClaims({ exp: null })],
  'an infinite expiry': ['jwt-claim', () => withRaw('exp', '1e999')],
  'an expiry as a list': ['jwt-claim', () => withClaims({ exp: [now() + 300] })],
  'a start in the future': ['jwt-not-yet-valid', () => withClaims({ nbf: now() + 40 })],
  'a start as a text': ['jwt-claim', () => withClaims({ nbf: 'now' })],
  'an issue in the future': ['jwt-not-yet-valid', () => withClaims({ iat: now() + 40 })],
  'an issue as a text': ['jwt-claim', () => withClaims({ iat: String(now()) })],
  // audience, issuer, subject
  'another audience': ['jwt-audience', () => withClaims({ aud: 'vault' })],
  'the audience as a prefix': ['jwt-audience', () => withClaims({ aud: 'countersign2' })],
  'the audience in upper case': ['jwt-audience', () => withClaims({ aud: 'Countersign' })],
  'no audience': ['jwt-claim', () => withClaims({ aud: undefined })],
  'no audience in a list': ['jwt-audience', () => withClaims({ aud: [] })],
  'the audience in a list in a list': ['jwt-audience', () => withClaims({ aud: [['countersign']] })],
  'the audience beside a number': ['jwt-claim', () => withClaims({ aud: ['countersign', 1] })],
  'the audience as an object': ['jwt-audience', () => withClaims({ aud: { countersign: true } })],
  'no issuer': ['jwt-issuer', () => withClaims({ iss: undefined })],
  'an unknown issuer': ['jwt-issuer', () => withClaims({ iss: canaryUrl })],
  'the issuer with a slash': ['jwt-issuer', () => withClaims({ iss: `${issuer.url}/` })],
  'the issuer in a list': ['jwt-issuer', () => withClaims({ iss: [issuer.url] })],
  'the name of the issuer in the configuration': ['jwt-issuer', () => withClaims({ iss: 'idp' })],
  'an issuer that is a property of every object': ['jwt-issuer', () => withClaims({ iss: 'constructor' })],
  'no subject': ['jwt-claim', () => withClaims({ sub: undefined })],
  'an empty subject': ['jwt-claim', () => withClaims({ sub: '' })],
  'the subject in a list': ['jwt-claim', () => withClaims({ sub: ['billing'] })],
  'a subject of 257 characters': ['jwt-claim', () => withClaims({ sub: 'b'.repeat(257) })],
  'an unknown subject': ['jwt-no-caller', () => withClaims({ sub: 'Billing' })],
  'a subject with a space': ['jwt-no-caller', () => withClaims({ sub: 'billing ' })],
  'the subject of a caller of another issuer': ['jwt-no-caller', () => withClaims({ sub: 'reports' })],
  'a token ID that is no text': ['jwt-claim', () => withClaims({ jti: 7 })],
  'a binding to a key of the caller': ['jwt-claim', () => withClaims({ cnf: { jkt: 'x' } })],
};

const flipped = (token: string): string =>
  token.replace(/.(?=.{20}$)/, (letter) => (letter === 'A' ? 'B' : 'A'));

/** `{"alg":...}` in a length that leaves four unused bits in the last character. */
function surplusBits(): string {
  const head = raw('{"alg":"RS256","kid":"rsa" }'.padEnd(31));
  const last = head.at(-1) ?? '';
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  return signed(`${head.slice(0, -1)}${alphabet[alphabet.indexOf(last) + 1]}`, json(claims()));
}

async function nested(): Promise<string> {
  const inner = new TextEncoder().encode(withClaims({}));
  return new CompactSign(inner)
    .setProtectedHeader({ alg: 'RS256', kid: 'rsa', cty: 'JWT' })
    .sign(rsa.privateKey);
}

async function encrypted(): Promise<string> {
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const plain = new TextEncoder().encode(JSON.stringify(claims()));
  return new CompactEncrypt(plain)
    .setProtectedHeader({ alg: 'RSA-OAEP-256', enc: 'A256GCM' })
    .encrypt(publicKey);
}

function createPublicPem(privateKey: typeof rsa.privateKey): string {
  return createPublicKey(privateKey).export({ type: 'spki', format: 'pem' });
}

describe('a wrong token', () => {
  let reference = '';
  beforeAll(async () => {
    reference = sameBytes(await queryWith(proxy, 'a-token-without-dots'));
    expect(reference).toMatch(/^\[401,/);
  });

  it('is one of more than sixty kinds here, and a right one is accepted', async () => {
    expect(Object.keys(wrong).length).toBeGreaterThan(60);
    expect((await queryWith(proxy, withClaims({}))).status).toBe(200);
  });

  it.each(Object.entries(wrong))('with %s gets the same 401 as any other', async (_, [problem, make]) => {
    const token = await make();
    // Slower than the limit of log lines.
    await setTimeout(20);
    const response = await queryWith(proxy, token);
    expect(sameBytes(response)).toBe(reference);
    const id = response.headers['x-request-id'];
    await until(() => proxy.logText().includes(String(id)));
    const line = proxy.logLines().find(({ requestId }) => requestId === id);
    expect(line).toMatchObject({ credential: 'jwt', jwtProblem: problem, status: 401 });
    const payload = token.split('.')[1] ?? '';
    if (payload.length > 20) expect(proxy.logText()).not.toContain(payload.slice(0, 40));
  });

  it('never causes a request to an address in it, and one to the issuer at most', () => {
    expect(canaryRequests).toEqual([]);
    const [before, forced] = [2, 2];
    expect(issuer.requests.length).toBeLessThanOrEqual(before + forced);
    expect(other.requests.length).toBeLessThanOrEqual(before + forced);
    const paths = new Set([...issuer.requests, ...other.requests].map(({ path }) => path));
    expect([...paths].sort()).toEqual(['/.well-known/openid-configuration', '/keys']);
  });

  it('is counted by its cause', async () => {
    const problems = new Set(Object.values(wrong).map(([problem]) => problem));
    for (const result of problems) {
      const expected = Object.values(wrong).filter(([problem]) => problem === result).length;
      expect([result, await proxy.metric('jwt_verifications_total', { result })]).toEqual([result, expected]);
    }
  });
});
