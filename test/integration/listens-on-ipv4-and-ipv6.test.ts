import { networkInterfaces } from 'node:os';
import { afterAll, describe, expect } from '@jest/globals';
import { tokenCredential } from '../support/config.ts';
import { harness } from '../support/harness.ts';
import { itWhere } from '../support/requires.ts';

const start = harness(afterAll);
const hasIpv6 = Object.values(networkInterfaces()).some((addresses) =>
  addresses?.some(({ address }) => address === '::1'),
);

describe.each([
  ['::', ['127.0.0.1', '[::1]'], []],
  ['0.0.0.0', ['127.0.0.1'], ['[::1]']],
  ['::1', ['[::1]'], ['127.0.0.1']],
] as const)('an instance at the address %s', (host, reachable, unreachable) => {
  const test = itWhere(host === '0.0.0.0' || hasIpv6, 'an address of IPv6');

  test(`is reached at ${reachable.join(' and ')}`, async () => {
    const {
      adminUrl,
      url: proxyUrl,
      logLines,
    } = await start.proxy({
      config: {
        proxy: { host, port: 0, allowPlaintext: true },
        admin: { host, port: 0, ...tokenCredential('x') },
        callers: [{ name: 'a', credentials: [tokenCredential('token-of-a')], allow: [] }],
      },
    });
    for (const url of [proxyUrl, adminUrl])
      expect(new URL(url).hostname).toBe(host.includes(':') ? `[${host}]` : host);
    const at = (url: string, address: string) => `http://${address}:${new URL(url).port}`;
    for (const address of reachable) {
      expect((await fetch(`${at(adminUrl, address)}/healthz`)).status).toBe(200);
      const form = { method: 'POST', body: new URLSearchParams({ a: 'b' }) };
      expect((await fetch(`${at(proxyUrl, address)}/sandbox/gw/api/v4/status/1`, form)).status).toBe(401);
    }
    for (const address of unreachable)
      await expect(fetch(`${at(adminUrl, address)}/healthz`)).rejects.toThrow('fetch failed');
    // An address of IPv4 is written as such, whatever the socket.
    const peers = logLines().flatMap(({ peer }) => (peer === undefined ? [] : [peer]));
    expect(peers).toEqual(reachable.map((address) => address.replaceAll(/[[\]]/g, '')));
  });
});
