import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { ConfigInput } from '../support/config.ts';
import { Folder } from '../support/folder.ts';
import { harness } from '../support/harness.ts';
import { type OpensslServer, opensslClient, opensslServer, weakest } from '../support/openssl-peers.ts';
import { describeWith } from '../support/requires.ts';
import type { TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';
import { vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const rsaSuite = 'ECDHE-RSA-AES128-GCM-SHA256';

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
      const old = ['-tls1_2', '-cipher', rsaSuite];
      for (let nth = 0; nth < 2; nth += 1) await opensslClient(proxy.url, old);
      await opensslClient(proxy.url, ['-tls1_2', '-cipher', `AES128-SHA:${weakest}`]);
      await opensslClient(proxy.url, ['-tls1_1', '-cipher', `ALL:${weakest}`]);
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
      expect(failed(proxy, 'listener').map(({ problem, cause }) => [problem, cause])).toEqual([
        ...(rejected
          ? [
              ['version', 'tls-too-old'],
              ['version', 'tls-too-old'],
            ]
          : []),
        rejected ? ['version', 'tls-too-old'] : ['cipher', 'no-shared-cipher'],
        ['version', 'tls-too-old'],
        ['certificate', 'unknown-ca'],
      ]);
    },
  );

  it('that read the admin port', async () => {
    const proxy = await starts.proxy({ config: { admin: { port: 0, tls: tls() } } });
    await opensslClient(proxy.adminUrl, ['-tls1_2', '-cipher', rsaSuite]);
    await opensslClient(proxy.adminUrl, ['-tls1_2', '-cipher', `AES128-SHA:${weakest}`]);
    await until(() => failed(proxy, 'admin').length > 0);
    expect(failed(proxy, 'admin')).toEqual([
      expect.objectContaining({ problem: 'cipher', cause: 'no-shared-cipher', peer: '127.0.0.1' }),
    ]);
    expect(first(proxy, 'admin')).toEqual([
      expect.objectContaining({ version: 'TLSv1.2', cipher: rsaSuite, peer: '127.0.0.1' }),
    ]);
  });

  const servers: [what: string, args: string[], problem: string | undefined][] = [
    ['TLS 1.2', ['-tls1_2', '-cipher', rsaSuite], undefined],
    ['no version', ['-tls1_1', '-cipher', `ALL:${weakest}`], 'version'],
    ['no suite', ['-tls1_2', '-cipher', 'AES128-SHA'], 'cipher'],
    // OpenSSL sends the same alert as without a common suite.
    ['a client certificate wanted in TLS 1.2', ['-tls1_2', '-Verify', '1'], 'cipher'],
    ['a client certificate wanted in TLS 1.3', ['-tls1_3', '-Verify', '1'], 'certificate'],
  ];

  it.each(servers)('that are gateways: %s', async (_what, args, problem) => {
    const gateway = await server(...args);
    const proxy = await starts.proxy({
      gateway: gateway.url,
      sandbox: { caFile: ca.file, timeouts: { connect: '1s', request: '2s' } },
    });
    await proxy.transfer();
    const labels = { role: 'gateway', environment: 'sandbox' };
    if (problem === undefined) {
      const negotiated = { version: 'TLSv1.2', cipher: rsaSuite };
      expect(await proxy.counted('tls_connections_total', { ...labels, ...negotiated })).toBe(1);
      expect(first(proxy, 'gateway')).toEqual([expect.objectContaining({ ...labels, ...negotiated })]);
    } else {
      expect(await proxy.counted('tls_handshake_failures_total', { ...labels, problem })).toBeGreaterThan(0);
      // One line, however many attempts failed.
      expect(failed(proxy, 'gateway')).toEqual([expect.objectContaining({ ...labels, problem })]);
    }
  });

  it.each(servers)('that are Vault: %s', async (_what, args, problem) => {
    const vault = await server(...args);
    const keys = vaultKeys(vault.url, { caFile: ca.file });
    const proxy = await starts.proxy({ config: { keys } });
    await proxy.balance();
    if (problem === undefined)
      expect(first(proxy, 'vault')).toEqual([
        expect.objectContaining({ version: 'TLSv1.2', cipher: rsaSuite }),
      ]);
    else expect(failed(proxy, 'vault')[0]).toMatchObject({ problem });
  });

  it.each(servers.slice(0, 3))('that have the keys of a JWT issuer: %s', async (_what, args, problem) => {
    const issuer = await server(...args);
    const config: Partial<ConfigInput> = {
      jwtIssuers: {
        corporate: {
          issuer: 'https://issuer.example',
          audience: 'countersign',
          jwks: { url: `${issuer.url}/keys` },
          caFile: ca.file,
        },
      },
    };
    const proxy = await starts.proxy({ config });
    const seen = () => [...first(proxy, 'jwt-issuer'), ...failed(proxy, 'jwt-issuer')];
    await until(() => seen().length > 0);
    expect(seen()[0]).toMatchObject(problem === undefined ? { cipher: rsaSuite } : { problem });
  });
});
