import { createHmac, createPublicKey, createSign } from 'node:crypto';
import { createServer } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import jsonwebtoken from 'jsonwebtoken';
import { harness } from '../support/harness.ts';
import { jwtCaller, jwtConfig, queryWith, sameBytes } from '../support/jwt.ts';
import { listen } from '../support/listening.ts';
import { issuerKey, OidcServer, startOidcServer, usualClaims } from '../support/oidc-server.ts';
import type { TestProxy } from '../support/service.ts';
import { until } from '../support/until.ts';

const starts = harness(afterAll);
const rsa = issuerKey('rsa', 'RS256');
const stranger = issuerKey('rsa', 'RS256');
const publicPem = createPublicKey(rsa.privateKey).export({ type: 'spki', format: 'pem' });

let issuer: OidcServer;
let other: OidcServer;
let canaryUrl = '';
const canaryRequests: string[] = [];
let proxy: TestProxy;

beforeAll(async () => {
  issuer = starts.closing(await startOidcServer({ keys: [rsa] }));
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
  proxy = await starts.proxy({
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
const hmac = (secret: string | Buffer): string => {
  const input = `${json({ alg: 'HS256', kid: 'rsa' })}.${json(claims())}`;
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
};

type Make = () => string | Promise<string>;

/** Header members that bring or name a key, or change the meaning. */
const forbidden = ['jwk', 'jku', 'x5u', 'x5c', 'crit', 'b64', 'cty', 'enc', 'zip', 'epk'];

const wrong: Readonly<Record<string, readonly [problem: string, make: Make]>> = {
  // algorithms
  'no algorithm': ['jwt-malformed', () => jsonwebtoken.sign(claims(), null, { algorithm: 'none' })],
  'alg none with a signature': ['jwt-algorithm', () => withHeader({ alg: 'none' })],
  'no alg': ['jwt-malformed', () => withHeader({ alg: undefined })],
  'HS256 with the public key as the secret': ['jwt-algorithm', () => hmac(publicPem)],
  'ES256 with an RSA key': ['jwt-key', () => withHeader({ alg: 'ES256' })],
  // signatures
  'a signature of other claims': [
    'jwt-signature',
    () => [...withClaims({}).split('.').slice(0, 2), withClaims({ sub: 'x' }).split('.')[2]].join('.'),
  ],
  'the key of a stranger under a known ID': ['jwt-signature', () => issuer.sign({}, {}, stranger)],
  'the key of another issuer': ['jwt-key', () => issuer.sign({ iss: other.url }, { kid: 'rsa' }, rsa)],
  // headers
  'an unknown kid': ['jwt-key', () => withHeader({ kid: 'unknown' })],
  'a kid that is a URL': ['jwt-key', () => withHeader({ kid: `${canaryUrl}/kid` })],
  'a kid that is an object': ['jwt-header', () => withHeader({ kid: { jwk: stranger.jwk } })],
  'a type that is no text': ['jwt-header', () => withHeader({ typ: ['JWT'] })],
  ...Object.fromEntries(
    forbidden.map((name): [string, [string, Make]] => [
      `a header with ${name}`,
      [
        'jwt-header',
        () => signed(json(header({ [name]: `${canaryUrl}/${name}` })), json(claims()), stranger),
      ],
    ]),
  ),
  // structure
  'one dot': ['jwt-malformed', () => 'a.b'],
  'a fourth part': ['jwt-malformed', () => `${withClaims({})}.e30`],
  padding: ['jwt-malformed', () => `${withClaims({})}=`],
  'a header that is no JSON': ['jwt-malformed', () => signed(raw('alg=RS256'), json(claims()))],
  'a header that is null': ['jwt-malformed', () => signed(json(null), json(claims()))],
  'claims that are a list': ['jwt-malformed', () => signed(json(header()), raw('[]'))],
  'two subjects': [
    'jwt-malformed',
    () => signed(json(header()), raw(`{"sub":"x",${JSON.stringify(claims()).slice(1)}`)),
  ],
  'two algorithms': [
    'jwt-malformed',
    () => signed(raw('{"alg":"none","kid":"rsa","alg":"RS256"}'), json(claims())),
  ],
  // time
  'an expiry that has passed': ['jwt-expired', () => withClaims({ exp: now() - 31 })],
  'no expiry': ['jwt-claim', () => withClaims({ exp: undefined })],
  'an expiry as a text': ['jwt-claim', () => withClaims({ exp: String(now() + 300) })],
  'a start in the future': ['jwt-not-yet-valid', () => withClaims({ nbf: now() + 40 })],
  'an issue in the future': ['jwt-not-yet-valid', () => withClaims({ iat: now() + 40 })],
  // audience, issuer, subject
  'another audience': ['jwt-audience', () => withClaims({ aud: 'countersign2' })],
  'no audience': ['jwt-claim', () => withClaims({ aud: undefined })],
  'the audience beside a number': ['jwt-claim', () => withClaims({ aud: ['countersign', 1] })],
  'no issuer': ['jwt-issuer', () => withClaims({ iss: undefined })],
  'an unknown issuer': ['jwt-issuer', () => withClaims({ iss: canaryUrl })],
  'the issuer in a list': ['jwt-issuer', () => withClaims({ iss: [issuer.url] })],
  'no subject': ['jwt-claim', () => withClaims({ sub: undefined })],
  'an empty subject': ['jwt-claim', () => withClaims({ sub: '' })],
  'the subject in a list': ['jwt-claim', () => withClaims({ sub: ['billing'] })],
  'an unknown subject': ['jwt-no-caller', () => withClaims({ sub: 'Billing' })],
  'the subject of a caller of another issuer': ['jwt-no-caller', () => withClaims({ sub: 'reports' })],
  'a token ID that is no text': ['jwt-claim', () => withClaims({ jti: 7 })],
  'a binding to a key of the caller': ['jwt-claim', () => withClaims({ cnf: { jkt: 'x' } })],
};

describe('a wrong token', () => {
  let reference = '';
  beforeAll(async () => {
    reference = sameBytes(await queryWith(proxy, 'a-token-without-dots'));
    expect(reference).toMatch(/^\[401,/);
  });

  it.each<[string, Make]>([
    ['what is usual', () => withClaims({})],
    ['one audience of several', () => withClaims({ aud: ['other', 'countersign'] })],
    ['no nbf and no iat', () => withClaims({ nbf: undefined, iat: undefined })],
    ['no key ID', () => withHeader({ kid: undefined })],
    ['other claims, nested', () => withClaims({ 'kubernetes.io': { pod: { labels: ['a'] } } })],
    ['a clock that is 25 s ahead', () => withClaims({ iat: now() + 25, nbf: now() + 25 })],
    ['an expiry 20 s ago', () => withClaims({ exp: now() - 20 })],
  ])('is none with %s', async (_, make) => {
    expect((await queryWith(proxy, await make())).status).toBe(200);
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
