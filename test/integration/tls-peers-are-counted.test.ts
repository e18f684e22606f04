import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Folder } from '../support/folder.ts';
import { harness } from '../support/harness.ts';
import { type OpensslServer, opensslClient, opensslServer, weakest } from '../support/openssl-peers.ts';
import { describeWith } from '../support/requires.ts';
import type { ProxyOptions, TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';
import { vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const rsaSuite = 'ECDHE-RSA-AES128-GCM-SHA256';
const newEnough = ['-tls1_2', '-cipher', rsaSuite];
const tooOld = ['-tls1_1', '-cipher', `ALL:${weakest}`];

describeWith('openssl')('TLS peers', () => {
  const starts = harness();
  let ca: Ca;
  let own: Issued;

  const folder = new Folder();
  beforeAll(() => {
    ca = new Ca(folder.path, 'ca');
    own = ca.issue('own', { rsa: true });
  });
  afterAll(() => folder.remove());

  const tls = () => ({ certFile: own.certFile, keyFile: own.keyFile });

  async function server(...args: readonly string[]): Promise<OpensslServer> {
    return starts.closing(await opensslServer(['-cert', own.certFile, '-key', own.keyFile, '-rev', ...args]));
  }

  const failed = (proxy: TestProxy, role: string) =>
    proxy.logLines('TLS handshake failed').filter((line) => line['role'] === role);
  const first = (proxy: TestProxy, role: string) =>
    proxy.logLines('first TLS connection of this kind').filter((line) => line['role'] === role);

  it.each(['1.2', '1.3'] as const)(
    'that are clients of the proxy port, with minVersion %s',
    async (minVersion) => {
      const proxy = await starts.proxy({ config: { proxy: { port: 0, tls: { ...tls(), minVersion } } } });
      for (let nth = 0; nth < 2; nth += 1) await opensslClient(proxy.url, newEnough);
      await opensslClient(proxy.url, ['-tls1_2', '-cipher', `AES128-SHA:${weakest}`]);
      await opensslClient(proxy.url, tooOld);
      await opensslClient(proxy.url, ['-verify_return_error']);
      const count = (problem: string) =>
        proxy.counted('tls_handshake_failures_total', { role: 'listener', problem });
      await until(async () => (await count('certificate')) === 1, 'the alert has arrived');
      const rejected = minVersion === '1.3';
      expect(await count('version')).toBe(rejected ? 4 : 1);
      expect(await count('cipher')).toBe(rejected ? 0 : 1);
      const labels = { role: 'listener', environment: 'none', version: 'TLSv1.2', cipher: rsaSuite };
      expect(await proxy.counted('tls_connections_total', labels)).toBe(rejected ? 0 : 2);
      const [line] = first(proxy, 'listener');
      const expected = { role: 'listener', version: 'TLSv1.2', cipher: rsaSuite, peer: '127.0.0.1' };
      if (rejected) expect(line).toBeUndefined();
      else expect(line).toMatchObject({ level: 'info', ...expected });
      const older = { problem: 'version', cause: 'tls-too-old' };
      const others = [older, { problem: 'certificate', cause: 'unknown-ca' }];
      const noSuite = { problem: 'cipher', cause: 'no-shared-cipher' };
      const failures = rejected ? [older, older, older, ...others] : [noSuite, ...others];
      expect(failed(proxy, 'listener')).toMatchObject(failures);
    },
  );

  it('that read the admin port', async () => {
    const proxy = await starts.proxy({ config: { admin: { port: 0, tls: tls() } } });
    await opensslClient(proxy.adminUrl, newEnough);
    await opensslClient(proxy.adminUrl, ['-tls1_2', '-cipher', `AES128-SHA:${weakest}`]);
    await until(() => failed(proxy, 'admin').length > 0);
    expect(failed(proxy, 'admin')).toEqual([
      expect.objectContaining({ problem: 'cipher', cause: 'no-shared-cipher', peer: '127.0.0.1' }),
    ]);
    expect(first(proxy, 'admin')).toEqual([
      expect.objectContaining({ version: 'TLSv1.2', cipher: rsaSuite, peer: '127.0.0.1' }),
    ]);
  });

  const optionsFor = {
    gateway: (url: string): ProxyOptions => ({
      gateway: url,
      sandbox: { caFile: ca.file, timeouts: { connect: '1s', request: '2s' } },
    }),
    vault: (url: string): ProxyOptions => ({ config: { keys: vaultKeys(url, { caFile: ca.file }) } }),
    'jwt-issuer': (url: string): ProxyOptions => {
      const jwks = { url: `${url}/keys` };
      const idp = { issuer: 'https://issuer.example', audience: 'countersign', jwks, caFile: ca.file };
      return { config: { jwtIssuers: { idp } } };
    },
  };

  it.each<[role: keyof typeof optionsFor, what: string, args: string[], problem: string | undefined]>([
    ['gateway', 'TLS 1.2', newEnough, undefined],
    ['gateway', 'no version', tooOld, 'version'],
    ['gateway', 'no suite', ['-tls1_2', '-cipher', 'AES128-SHA'], 'cipher'],
    // OpenSSL sends the same alert as without a common suite.
    ['gateway', 'a client certificate wanted in TLS 1.2', ['-tls1_2', '-Verify', '1'], 'cipher'],
    ['gateway', 'a client certificate wanted in TLS 1.3', ['-tls1_3', '-Verify', '1'], 'certificate'],
    ['vault', 'TLS 1.2', newEnough, undefined],
    ['vault', 'no version', tooOld, 'version'],
    ['jwt-issuer', 'TLS 1.2', newEnough, undefined],
    ['jwt-issuer', 'no version', tooOld, 'version'],
  ])('that are servers: %s with %s', async (role, _what, args, problem) => {
    const { url } = await server(...args);
    const proxy = await starts.proxy(optionsFor[role](url));
    await proxy.transfer();
    const lines = () => (problem === undefined ? first : failed)(proxy, role);
    await until(() => lines().length > 0);
    const labels = { role, ...(role === 'gateway' ? { environment: 'sandbox' } : {}) };
    const seen = problem === undefined ? { version: 'TLSv1.2', cipher: rsaSuite } : { problem };
    expect(lines()[0]).toMatchObject({ ...labels, ...seen });
    const metric = problem === undefined ? 'tls_connections_total' : 'tls_handshake_failures_total';
    expect(await proxy.counted(metric, { ...labels, ...seen })).toBeGreaterThan(0);
  });
});
