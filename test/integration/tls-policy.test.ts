import { execFileSync } from 'node:child_process';
import { createServer } from 'node:net';
import { beforeEach, expect, it } from '@jest/globals';
import type { ConfigInput } from '../support/config.ts';
import { paths, verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { portOf } from '../support/listening.ts';
import { type OpensslServer, opensslClient, opensslServer, weakest } from '../support/openssl-peers.ts';
import { formRequest } from '../support/raw-http.ts';
import { describeWith } from '../support/requires.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { vaultKeys } from '../support/stub-vault/harness.ts';

/** Accepted, per kind of certificate. */
const suites = {
  rsa: ['ECDHE-RSA-AES128-GCM-SHA256', 'ECDHE-RSA-AES256-GCM-SHA384', 'ECDHE-RSA-CHACHA20-POLY1305'],
  ecdsa: ['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-ECDSA-CHACHA20-POLY1305'],
};
const suites13 = ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256'];

describeWith('openssl')('the TLS policy', () => {
  const starts = harness();
  let ca: Ca;

  beforeEach(() => {
    ca = new Ca(starts.folder().path, 'ca');
  });

  type ListenerInput = NonNullable<NonNullable<ConfigInput['proxy']>['tls']>;

  function listenerWith(kind: keyof typeof suites, minVersion: ListenerInput['minVersion'] = '1.2') {
    const { certFile, keyFile } = ca.issue(kind, { rsa: kind === 'rsa' });
    return { port: 0, tls: { certFile, keyFile, minVersion } };
  }

  async function startWith(kind: keyof typeof suites): Promise<string> {
    const { url } = await starts.proxy({ config: { proxy: listenerWith(kind) } });
    return url;
  }

  /** A server with an RSA certificate, so that suites of any age are possible. It responds with what it got, reversed. */
  async function serverOf(...args: readonly string[]): Promise<OpensslServer> {
    const { certFile, keyFile } = ca.issue('server', { rsa: true });
    return starts.closing(await opensslServer(['-cert', certFile, '-key', keyFile, '-rev', ...args]));
  }

  it.each(['rsa', 'ecdsa'] as const)(
    'of the proxy port accepts, of all suites that OpenSSL knows, %s ones with forward secrecy and AEAD',
    async (kind) => {
      const url = await startWith(kind);
      const negotiated: (string | undefined)[] = [];
      for (const suite of allSuites()) {
        const args = ['-tls1_2', '-cipher', `${suite}:${weakest}`];
        negotiated.push((await opensslClient(url, args, formRequest(paths.balance))).negotiated);
      }
      const accepted = negotiated.filter((name) => name !== undefined);
      expect(accepted.toSorted()).toEqual(suites[kind].map((suite) => `TLSv1.2 ${suite}`));
    },
    60_000,
  );

  it('of the proxy port accepts the suites of TLS 1.3', async () => {
    const url = await startWith('ecdsa');
    const runs = suites13.map((suite) => opensslClient(url, ['-tls1_3', '-ciphersuites', suite]));
    const negotiated = (await Promise.all(runs)).map((run) => run.negotiated);
    expect(negotiated).toEqual(suites13.map((suite) => `TLSv1.3 ${suite}`));
  });

  it.each(['-tls1', '-tls1_1'])('of the proxy port rejects %s', async (version) => {
    const url = await startWith('rsa');
    const { negotiated, output } = await opensslClient(url, [version, '-cipher', `ALL:${weakest}`]);
    expect(negotiated).toBeUndefined();
    expect(output).toContain('alert protocol version');
  });

  it('of the proxy port with minVersion 1.3 rejects TLS 1.2, and a reload changes it', async () => {
    // Without quotes, as YAML reads it.
    const proxy = await starts.proxy({ config: { proxy: listenerWith('ecdsa', 1.3) } });
    const negotiate = async (version: string) => (await opensslClient(proxy.url, [version])).negotiated;
    expect(await negotiate('-tls1_2')).toBeUndefined();
    expect(await negotiate('-tls1_3')).toBe('TLSv1.3 TLS_AES_256_GCM_SHA384');
    await proxy.reload({ proxy: listenerWith('ecdsa', '1.2') });
    expect(await negotiate('-tls1_2')).toBe('TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384');
    await proxy.reload({ proxy: listenerWith('ecdsa', '1.3') });
    expect(await negotiate('-tls1_2')).toBeUndefined();
  });

  it.each(['1.2', '1.3'] as const)(
    'of a gateway with minVersion %s offers these suites only',
    async (minVersion) => {
      const hello = Promise.withResolvers<Buffer>();
      const server = starts.closing(createServer((socket) => socket.once('data', hello.resolve)));
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const sandbox = { minVersion, timeouts: { connect: '300ms', request: '300ms' } };
      const proxy = await starts.proxy({ gateway: `https://127.0.0.1:${portOf(server)}`, sandbox });
      await proxy.balance();
      const suites12 = [0xc0_2b, 0xc0_2c, 0xc0_2f, 0xc0_30, 0xcc_a8, 0xcc_a9];
      const expected = [0x13_01, 0x13_02, 0x13_03, ...(minVersion === '1.2' ? suites12 : [])];
      expect(offeredSuites(await hello.promise)).toEqual(expected);
    },
  );

  const servers: [args: string[], accepted: boolean, accepted13: boolean][] = [
    [['-tls1_3'], true, true],
    ...suites.rsa.map((suite): [string[], boolean, boolean] => [['-tls1_2', '-cipher', suite], true, false]),
    ...[
      'AES128-SHA',
      'AES128-GCM-SHA256',
      'ECDHE-RSA-AES128-SHA',
      'ECDHE-RSA-AES256-SHA384',
      'DHE-RSA-AES256-GCM-SHA384',
      'ECDHE-ARIA128-GCM-SHA256',
    ].map((suite): [string[], boolean, boolean] => [['-tls1_2', '-cipher', suite], false, false]),
    [['-tls1_1', '-cipher', `ALL:${weakest}`], false, false],
  ];

  it.each(servers)('of a gateway, s_server %j: %s, and with minVersion 1.3 %s', async (args, ...accepted) => {
    const server = await serverOf(...args);
    const reached = async (minVersion: '1.2' | '1.3'): Promise<boolean> => {
      const sandbox = { minVersion, caFile: ca.file, timeouts: { connect: '1s', request: '2s' } };
      const proxy = await starts.proxy({ gateway: server.url, sandbox });
      const result = verdict(await proxy.transfer());
      expect(result).toMatch(/unknown unknown$|^502 gateway-unreachable not-sent not-sent$/);
      return result.endsWith('unknown');
    };
    expect([await reached('1.2'), await reached('1.3')]).toEqual(accepted);
  });

  it.each(servers)('of Vault, s_server %j: %s, and with minVersion 1.3 %s', async (args, ...accepted) => {
    const server = await serverOf(...args);
    const reached = async (minVersion: '1.2' | '1.3'): Promise<boolean> => {
      const keys = vaultKeys(server.url, { minVersion, caFile: ca.file });
      const proxy = await starts.proxy({ config: { keys } });
      await proxy.balance();
      const [line] = proxy.logLines('key source unavailable');
      return !String(line?.['cause']).includes('TLS');
    };
    expect([await reached('1.2'), await reached('1.3')]).toEqual(accepted);
  });
});

/** Of a ClientHello (RFC 8446 section 4.1.2), sorted, without the signal that it does not renegotiate. */
function offeredSuites(record: Buffer): number[] {
  const afterRandom = 5 + 4 + 2 + 32;
  const start = afterRandom + 1 + record.readUInt8(afterRandom);
  const count = record.readUInt16BE(start) / 2;
  return Array.from({ length: count }, (_, index) => record.readUInt16BE(start + 2 + 2 * index))
    .filter((suite) => suite !== 0x00_ff)
    .toSorted((one, other) => one - other);
}

/** Of TLS 1.2 and before, without those that need a shared secret. */
function allSuites(): string[] {
  const list = execFileSync('openssl', ['ciphers', '-tls1_2', '-s', `ALL:COMPLEMENTOFALL:${weakest}`]);
  return list
    .toString()
    .trim()
    .split(':')
    .filter((suite) => !suite.startsWith('TLS_'));
}
