import { expect, it } from '@jest/globals';
import type { HttpResponse } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { jwtConfig, queryWith } from '../support/jwt.ts';
import { issuerKey, startOidcServer } from '../support/oidc-server.ts';
import { type Marks, marksIn } from '../support/secret-canaries.ts';

const starts = harness();

const tokenOfFile = 'mark-TOKEN-for-the-issuer-4711';
const inClaim = 'mark-in-a-claim-0815';
const card = '4111111111111111';
const inKey = 'mark-in-a-published-key';

it('no part of a token, no claim, no card number and no token for the issuer leaks, however a token fails', async () => {
  const issuer = starts.closing(await startOidcServer());
  const [key] = issuer.keys;
  const folder = starts.folder();
  const tokenFile = folder.file('token', tokenOfFile);
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
    await issuer.sign(claims, { jku: `https://${inClaim}.example` }),
    await issuer.sign(claims, {}, { ...issuerKey('first'), ...(key && { kid: key.kid }) }),
    `${await issuer.sign(claims)}x`,
  ];
  const responses: HttpResponse[] = [];
  for (const token of tokens) responses.push(await queryWith(proxy, token));
  expect(responses.map(({ status }) => status)).toEqual([200, 401, 401, 401, 401, 401, 401, 401, 401]);
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
