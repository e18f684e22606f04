import { beforeEach, describe, expect, it } from '@jest/globals';
import jsonwebtoken from 'jsonwebtoken';
import { everything, tokenCredential } from '../support/config.ts';
import type { HttpResponse } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { jwtCaller, jwtConfig, queryWith } from '../support/jwt.ts';
import { issuerKey, type OidcServer, startOidcServer, usualClaims } from '../support/oidc-server.ts';
import { type Marks, marksIn } from '../support/secret-canaries.ts';
import type { ProxyOptions, TestProxy } from '../support/service.ts';
import { until } from '../support/until.ts';

const starts = harness();
let issuer: OidcServer;

beforeEach(async () => {
  issuer = starts.closing(await startOidcServer());
});

async function start(options: ProxyOptions = {}): Promise<TestProxy> {
  const gateway = await starts.recordingGateway();
  return starts.proxy({ gateway: gateway.url, config: jwtConfig(issuer), ...options });
}

const statusWith = async (proxy: TestProxy, token: string | Promise<string>): Promise<number> =>
  (await queryWith(proxy, await token)).status;

describe('a caller with a JWT', () => {
  it('is authenticated by issuer and subject, and the log says by which token', async () => {
    const proxy = await start({ logLevel: 'debug' });
    expect(await statusWith(proxy, issuer.sign({ jti: 'token-1' }))).toBe(200);
    expect(proxy.logLines('caller authenticated')).toEqual([
      expect.objectContaining({
        caller: 'billing',
        credential: 'jwt',
        issuer: issuer.url,
        subject: 'billing',
        keyId: 'first',
        tokenId: 'token-1',
      }),
    ]);
    const accepted = { issuer: 'idp', result: 'accepted' };
    expect(await proxy.metric('jwt_verifications_total', accepted)).toBe(1);
  });

  it.each(['RS256', 'PS256', 'ES256', 'ES384', 'ES512', 'EdDSA'] as const)(
    'may have a token that another library made, with %s where the configuration allows it',
    async (algorithm) => {
      const key = issuerKey('other', algorithm);
      issuer.rotate(key);
      const proxy = await start({ config: jwtConfig(issuer, { algorithms: [algorithm] }) });
      const pem = key.privateKey.export({ type: 'pkcs8', format: 'pem' });
      const token =
        algorithm === 'EdDSA'
          ? await issuer.sign()
          : jsonwebtoken.sign(usualClaims(issuer.url), pem, { algorithm, keyid: 'other' });
      expect(await statusWith(proxy, token)).toBe(200);
    },
  );

  it('is rejected if the token fits two callers, and the log names both', async () => {
    const callers = [
      jwtCaller('risk', { claims: { groups: 'risk' } }),
      jwtCaller('shop', { claims: { groups: 'shop' } }),
    ];
    const proxy = await start({ config: { ...jwtConfig(issuer), callers } });
    expect(await statusWith(proxy, issuer.sign({ groups: ['shop'] }))).toBe(200);
    expect(await statusWith(proxy, issuer.sign({ groups: ['shop', 'risk'] }))).toBe(401);
    expect(proxy.logLines('a JWT matches the credentials of more than one caller')).toEqual([
      expect.objectContaining({ level: 'error', issuer: 'idp', callers: 'risk, shop' }),
    ]);
  });

  it('who is unknown finds its subject in the log, and a denied one too', async () => {
    const config = jwtConfig(issuer);
    const callers = [...config.callers, { ...jwtCaller('poor', { subject: 'poor' }), allow: [] }];
    const proxy = await start({ config: { ...config, callers } });
    expect(await statusWith(proxy, issuer.sign({ sub: 'stranger\n\u00e9' }))).toBe(401);
    expect(await statusWith(proxy, issuer.sign({ sub: 'poor' }))).toBe(403);
    expect(await proxy.requestLines(2)).toEqual([
      expect.objectContaining({ credential: 'jwt', jwtProblem: 'jwt-no-caller', jwtSubject: 'stranger??' }),
      expect.objectContaining({ credential: 'jwt', caller: 'poor', jwtSubject: 'poor' }),
    ]);
  });

  it('is found by the hash of a token in the form of a JWT, if that is configured', async () => {
    const token = await issuer.sign({ exp: inSeconds(-3600) });
    const config = jwtConfig(issuer);
    const fixed = { name: 'fixed', credentials: [tokenCredential(token)], allow: [everything] };
    const proxy = await start({ config: { ...config, callers: [...config.callers, fixed] } });
    expect(await statusWith(proxy, token)).toBe(200);
    expect(await proxy.requestLines()).toEqual([expect.objectContaining({ caller: 'fixed' })]);
  });
});

describe('the keys of an issuer', () => {
  it('are fetched at the start, once for all tokens', async () => {
    const proxy = await start();
    await until(() => issuer.fetches() === 1);
    const token = await issuer.sign();
    await Promise.all(Array.from({ length: 20 }, () => queryWith(proxy, token)));
    expect(issuer.requests.map(({ path }) => path)).toEqual(['/.well-known/openid-configuration', '/keys']);
    const fetchedAt = await proxy.metric('jwt_keys_fetched_timestamp_seconds', { issuer: 'idp' });
    expect(Math.abs((fetchedAt ?? 0) - Date.now() / 1000)).toBeLessThan(20);
  });

  it('stay in use in an outage and over reloads, until maxStale; then tokens get 503', async () => {
    let now = 0;
    const config = jwtConfig(issuer, { maxStale: '1h' });
    const proxy = await start({ config, monotonic: () => now });
    expect(await statusWith(proxy, issuer.sign())).toBe(200);
    issuer.fail();
    const before = issuer.requests.length;
    await proxy.reload(config);
    await until(() => issuer.requests.length > before && proxy.logText().includes('unavailable'));
    expect(proxy.logLines('keys of a JWT issuer unavailable')).toEqual([
      expect.objectContaining({ level: 'error', source: 'idp', cause: expect.stringMatching(/status 503/) }),
    ]);
    now = 3_599_000;
    expect(await statusWith(proxy, issuer.sign())).toBe(200);
    now = 3_601_000;
    const response = await queryWith(proxy, await issuer.sign());
    expect(response.status).toBe(503);
    expect(response.headers['retry-after']).toBe('5');
    expect(JSON.parse(response.body)).toMatchObject({ reason: 'issuer-unavailable', outcome: 'not-sent' });
    const line = (await proxy.requestLines(3)).at(-1);
    expect(line).toMatchObject({ jwtProblem: 'jwt-keys-unavailable', status: 503, peer: '127.0.0.1' });
    const ready = await fetch(`${proxy.adminUrl}/readyz`);
    expect([ready.status, await ready.text()]).toEqual([200, expect.stringMatching(/jwt-keys-unavailable/)]);
    issuer.recover();
    now = 3_640_000;
    expect(await statusWith(proxy, issuer.sign())).toBe(200);
    expect(proxy.logLines('keys of a JWT issuer available again')).toHaveLength(1);
  });

  it('are fetched with the files of a reloaded configuration, and those fetched before stay in use', async () => {
    const proxy = await start();
    expect(await statusWith(proxy, issuer.sign())).toBe(200);
    const { respond } = issuer;
    issuer.respond = (request, response) => {
      if (request.headers.authorization === 'Bearer let-me-in') respond(request, response);
      else response.writeHead(401).end();
    };
    await proxy.reload(jwtConfig(issuer));
    await until(() => proxy.logLines('keys of a JWT issuer unavailable').length === 1);
    const tokenFile = starts.folder().file('token', 'let-me-in');
    await proxy.reload(jwtConfig(issuer, { tokenFile }));
    expect(await statusWith(proxy, issuer.sign())).toBe(200);
    await until(() => proxy.logLines('keys of a JWT issuer available again').length === 1);
  });

  it('of an issuer are not accepted for the one that replaces it in the configuration', async () => {
    const proxy = await start();
    expect(await statusWith(proxy, issuer.sign())).toBe(200);
    const other = starts.closing(await startOidcServer());
    other.fail();
    await proxy.reload(jwtConfig(other));
    expect(await statusWith(proxy, issuer.sign({ iss: other.url }))).toBe(503);
    other.recover();
    await proxy.reload(jwtConfig(other));
    await until(async () => (await queryWith(proxy, await other.sign())).status === 200);
    expect(await statusWith(proxy, issuer.sign({ iss: other.url }, { kid: 'unknown' }))).toBe(401);
  });
});

it('an issuer that does not respond delays neither the start nor the exit of the process', async () => {
  issuer.respond = () => {};
  const countersign = await starts.process({ config: jwtConfig(issuer) });
  await until(() => issuer.requests.length > 0);
  const began = performance.now();
  expect(await countersign.stop()).toBe(0);
  // A request to the issuer has five seconds.
  expect(performance.now() - began).toBeLessThan(4000);
});

const tokenOfFile = 'mark-TOKEN-for-the-issuer-4711';
const inClaim = 'mark-in-a-claim-0815';
const card = '4111111111111111';
const inKey = 'mark-in-a-published-key';

it('no part of a token, no claim, no card number and no token for the issuer leaks, however a token fails', async () => {
  const [key] = issuer.keys;
  const tokenFile = starts.folder().file('token', tokenOfFile);
  const gateway = await starts.recordingGateway();
  let now = 0;
  const proxy = await starts.proxy({
    gateway: gateway.url,
    logLevel: 'debug',
    monotonic: () => now,
    config: jwtConfig(issuer, { tokenFile, maxStale: '1h' }),
  });
  const claims = { secret: inClaim };
  const sub = `card-${card}`;
  const tokens = [
    await issuer.sign(claims),
    await issuer.sign({ ...claims, sub }),
    await issuer.sign({ ...claims, exp: 1 }),
    await issuer.sign({ ...claims, jti: card, aud: inClaim }),
    await issuer.sign({ ...claims, iss: `https://${inClaim}.example` }),
    await issuer.sign(claims, { kid: inClaim }),
    await issuer.sign(claims, {}, { ...issuerKey('first'), ...(key && { kid: key.kid }) }),
    `${await issuer.sign(claims)}x`,
  ];
  const responses: HttpResponse[] = [];
  for (const token of tokens) responses.push(await queryWith(proxy, token));
  expect(responses.map(({ status }) => status)).toEqual([200, 401, 401, 401, 401, 401, 401, 401]);
  // A server that echoes what it was sent, in all that it can say.
  issuer.respond = ({ headers }, response) => {
    const echo = `${headers.authorization} ${inKey}`;
    response.writeHead(302, echo, { Location: `/${encodeURIComponent(echo)}` }).end(echo);
  };
  now = 3_700_000;
  responses.push(await queryWith(proxy, tokens[0] ?? ''));
  expect(responses.at(-1)?.status).toBe(503);
  issuer.respond = ({ headers }, response) => response.end(`{"keys": ["${headers.authorization} ${inKey}"]`);
  now = 3_800_000;
  responses.push(await queryWith(proxy, tokens[0] ?? ''));
  await proxy.requestLines(responses.length);

  const parts = tokens.flatMap((token) => token.split('.').slice(1)).map((part, at) => [`part ${at}`, part]);
  const marks: Marks = { tokenOfFile, inClaim, card, inKey, ...Object.fromEntries(parts) };
  const seen = [proxy.logText(), await proxy.metrics(), ...responses.map((one) => JSON.stringify(one))];
  expect(seen.flatMap((text) => marksIn(text, marks))).toEqual([]);
  expect(JSON.stringify(gateway.requests)).not.toContain('Bearer');
  expect(issuer.requests.some(({ headers }) => headers.authorization === `Bearer ${tokenOfFile}`)).toBe(true);
});

function inSeconds(offset: number): number {
  return Math.floor(Date.now() / 1000) + offset;
}
