import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer as createHttpsServer } from 'node:https';
import { createServer } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { ConfigInput } from '../support/config.ts';
import { verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { listen } from '../support/listening.ts';
import { opensslClient, opensslServer, weakest } from '../support/openssl-peers.ts';
import { describeWith } from '../support/requires.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

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

  /** @returns the URL of the port */
  async function startWith(
    port: 'proxy' | 'admin',
    kind: keyof typeof suites,
    more: Partial<ListenerInput> = {},
  ): Promise<string> {
    const listener = listenerWith(kind);
    const tls = { ...listener.tls, ...more };
    const { url, adminUrl } = await starts.proxy({ config: { [port]: { port: 0, tls } } });
    return port === 'proxy' ? url : adminUrl;
  }

  it.each([
    ['proxy', 'rsa'],
    ['admin', 'ecdsa'],
  ] as const)(
    'of the %s port accepts, of all suites that OpenSSL knows, %s ones with forward secrecy and AEAD',
    async (port, kind) => {
      const url = await startWith(port, kind);
      const accepted: string[] = [];
      // It chooses one of those that are offered: without each that it has chosen, until it accepts none of the rest.
      let offered = allSuites();
      for (;;) {
        const args = ['-tls1_2', '-cipher', `${offered.join(':')}:${weakest}`];
        const { negotiated, output } = await opensslClient(url, args);
        if (negotiated === undefined) {
          expect(output).toContain('alert handshake failure');
          break;
        }
        const [, chosen = ''] = negotiated.split(' ');
        expect(offered).toContain(chosen);
        accepted.push(negotiated);
        offered = offered.filter((suite) => suite !== chosen);
      }
      expect(accepted.toSorted()).toEqual(suites[kind].map((suite) => `TLSv1.2 ${suite}`));
    },
  );

  describe('of a port', () => {
    it('accepts the suites of TLS 1.3', async () => {
      const url = await startWith('proxy', 'ecdsa');
      const runs = suites13.map((suite) => opensslClient(url, ['-tls1_3', '-ciphersuites', suite]));
      const negotiated = (await Promise.all(runs)).map((run) => run.negotiated);
      expect(negotiated).toEqual(suites13.map((suite) => `TLSv1.3 ${suite}`));
    });

    it('resumes sessions only without a client CA', async () => {
      const session = `${starts.folder().path}/session`;
      const resumes = async (url: string, version: string): Promise<boolean> => {
        await opensslClient(url, [version, '-sess_out', session, '-ign_eof'], 'GET / HTTP/1.0\r\n\r\n');
        return (await opensslClient(url, [version, '-sess_in', session])).resumed;
      };
      const plain = await startWith('proxy', 'ecdsa');
      const verifying = await startWith('proxy', 'ecdsa', { clientCaFile: ca.file });
      for (const version of ['-tls1_2', '-tls1_3']) {
        expect(await resumes(plain, version)).toBe(true);
        expect(await resumes(verifying, version)).toBe(false);
      }
    });
  });

  it('of the proxy port with minVersion 1.3 rejects TLS 1.2, and a reload changes it, also for open connections', async () => {
    // Without quotes, as YAML reads it.
    const proxy = await starts.proxy({ config: { proxy: listenerWith('ecdsa', 1.3) } });
    const negotiate = async (version: string) => (await opensslClient(proxy.url, [version])).negotiated;
    expect(await negotiate('-tls1_2')).toBeUndefined();
    expect(await negotiate('-tls1_3')).toBe('TLSv1.3 TLS_AES_256_GCM_SHA384');
    await proxy.reload({ proxy: listenerWith('ecdsa', '1.2') });
    expect(await negotiate('-tls1_2')).toBe('TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384');
    const { hostname: host, port } = new URL(proxy.url);
    const open = connectTls({ host, port: Number(port), ca: ca.cert, maxVersion: 'TLSv1.2' });
    await once(open.resume(), 'secureConnect');
    await proxy.reload({ proxy: listenerWith('ecdsa', '1.3') });
    if (!open.destroyed) await once(open, 'close');
    expect(await negotiate('-tls1_2')).toBeUndefined();
  });

  type Tls = Readonly<Record<'minVersion', '1.2' | '1.3'>>;
  const timeouts = { connect: '1s', request: '1s' };
  /** A proxy that connects to a server at this URL. */
  const connecting: [role: string, start: (url: string, tls: Tls) => Promise<unknown>][] = [
    [
      'a gateway',
      async (gateway, tls) => (await starts.proxy({ gateway, sandbox: { ...tls, timeouts } })).balance(),
    ],
    ['Vault', async (url, tls) => (await starts.proxy({ config: { keys: vaultKeys(url, tls) } })).balance()],
    [
      'a JWT issuer',
      (url, tls) => {
        const idp = { issuer: 'corporate', audience: 'us', jwks: { url: `${url}/keys` }, ...tls };
        return starts.proxy({ config: { jwtIssuers: { idp } } });
      },
    ],
  ];

  it.each(connecting)('of %s offers these versions and suites only', async (_role, start) => {
    const suites12 = [0xc0_2b, 0xc0_2c, 0xc0_2f, 0xc0_30, 0xcc_a8, 0xcc_a9];
    for (const minVersion of ['1.2', '1.3'] as const) {
      const hello = Promise.withResolvers<Buffer>();
      const server = createServer((socket) =>
        socket.once('data', (bytes: Buffer) => {
          hello.resolve(bytes);
          socket.destroy();
        }),
      );
      const { port } = starts.closing(await listen(server));
      await start(`https://127.0.0.1:${port}`, { minVersion });
      const expected = [0x13_01, 0x13_02, 0x13_03, ...(minVersion === '1.2' ? suites12 : [])];
      expect(offeredSuites(await hello.promise)).toEqual(expected);
    }
  });

  it('of a gateway does not let it renegotiate', async () => {
    const { certFile, keyFile } = ca.issue('server', { rsa: true });
    const server = starts.closing(await opensslServer(['-cert', certFile, '-key', keyFile, '-tls1_2']));
    const sandbox = { caFile: ca.file, timeouts: { connect: '1s', request: '3s' } };
    const proxy = await starts.proxy({ gateway: server.url, sandbox });
    const response = proxy.transfer();
    await until(() => server.output().includes('HTTP/1.1'), 'the request has arrived');
    server.process.stdin?.write('R\n');
    expect(verdict(await response)).toBe('502 gateway-reset unknown unknown');
    await until(() => server.output().includes('no renegotiation'), 'the server was told so');
  });

  it.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'of a gateway resumes no session from before its CA was replaced: %s',
    async (maxVersion) => {
      const { cert, key } = ca.issue('server');
      const sessions: string[] = [];
      const server = createHttpsServer({ cert, key, maxVersion }, (_request, response) => response.end('[]'));
      server.on('secureConnection', (socket: TLSSocket) => {
        sessions.push(socket.isSessionReused() ? 'resumed' : 'new');
      });
      const { port } = starts.closing(await listen(server));
      const caFile = starts.folder().file('ca.pem', String(ca.cert));
      const gateway = `https://127.0.0.1:${port}`;
      const proxy = await starts.proxy({ gateway, sandbox: { caFile }, certificateCheckInterval: 50 });
      for (let nth = 0; nth < 3; nth += 1) expect((await proxy.transfer()).status).toBe(200);
      expect(sessions).toEqual(['new', 'resumed', 'resumed']);
      writeFileSync(caFile, new Ca(starts.folder().path, 'next').cert);
      await until(() => proxy.logLines('certificate files reloaded').length > 0);
      expect(verdict(await proxy.transfer())).toBe('502 gateway-unreachable not-sent not-sent');
      expect(sessions.slice(3)).not.toContain('resumed');
    },
  );
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
