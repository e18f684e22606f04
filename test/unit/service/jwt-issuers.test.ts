import { writeFileSync } from 'node:fs';
import { afterEach, expect, it, jest } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { createJwtIssuers, type JwtIssuers } from '../../../src/service/jwt-issuers.ts';
import { system } from '../../../src/service/system.ts';
import { configFor } from '../../support/config.ts';
import { Folder } from '../../support/folder.ts';
import type { IssuerInput } from '../../support/jwt.ts';
import { issuerKey, startOidcServer } from '../../support/oidc-server.ts';
import { until } from '../../support/until.ts';

const ends: (() => unknown)[] = [];
afterEach(async () => {
  jest.useRealTimers();
  for (const end of ends.splice(0)) await end();
});

/** The time passes as usual, and when the test lets it. */
async function start(
  issuer: string,
  jwks: NonNullable<IssuerInput['jwks']>,
  maxStale = '24h',
): Promise<JwtIssuers & { readonly logged: string[] }> {
  jest.useFakeTimers({ advanceTimers: true, doNotFake: ['performance'] });
  const logged: string[] = [];
  const log = { message: (_: string, text: string) => void logged.push(text) };
  const jwtIssuers = { idp: { issuer, audience: 'a', jwks, maxStale } };
  const config = configSchema.parse(configFor('http://127.0.0.1:9', { jwtIssuers }));
  const issuers = createJwtIssuers(config, { ...system, log, metrics: { jwtVerified() {} } });
  ends.push(() => issuers.stop());
  issuers.begin();
  await until(() => issuers.available());
  return { ...issuers, logged };
}

it('the keys of an issuer in a file are read again each minute', async () => {
  const folder = new Folder();
  ends.push(() => folder.remove());
  const file = folder.file('keys.json', JSON.stringify({ keys: [issuerKey('a').jwk] }));
  const { logged } = await start('https://idp.example', { file });
  writeFileSync(file, '{}');
  jest.advanceTimersByTime(50_000);
  await new Promise(setImmediate);
  expect(logged).toEqual([]);
  jest.advanceTimersByTime(10_000);
  await until(() => logged.length > 0);
  expect(logged).toEqual(['keys of a JWT issuer unavailable']);
});

it.each([
  ['24h', 600_000],
  ['4m', 120_000],
])(
  'with maxStale %s the keys of an issuer at a server are fetched again after %d ms',
  async (maxStale, interval) => {
    const server = await startOidcServer();
    ends.push(() => server.close());
    await start(server.url, { url: `${server.url}/keys` }, maxStale);
    jest.advanceTimersByTime(interval - 10_000);
    // Time for a fetch that had begun.
    for (let count = 0; count < 3; count += 1) await fetch(server.url);
    expect(server.fetches()).toBe(1);
    jest.advanceTimersByTime(10_000);
    await until(() => server.fetches() === 2);
  },
);
