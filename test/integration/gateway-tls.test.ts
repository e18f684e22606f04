import { copyFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { TLSSocket, type TlsOptions } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { always, httpResponse } from '../support/faulty-gateway.ts';
import { verdict } from '../support/forwarding.ts';
import { harness, type Pair } from '../support/harness.ts';
import { listen } from '../support/listening.ts';
import { opensslServer } from '../support/openssl-peers.ts';
import { describeWith } from '../support/requires.ts';
import type { ProxyOptions, TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';
import { until } from '../support/until.ts';

const starts = harness(afterAll);
const folder = starts.folder();

const unreachable = '502 gateway-unreachable not-sent not-sent';
const respond = always(httpResponse('200 OK', '[]'));

/** Certificates are made with openssl; these tests are skipped if it is not installed. */
describeWith('openssl')('a gateway with TLS', () => {
  let ca: Ca;
  let otherCa: Ca;
  let good: Issued;
  let wrongName: Issued;

  beforeAll(() => {
    ca = new Ca(folder.path, 'ca');
    otherCa = new Ca(folder.path, 'other-ca');
    good = ca.issue('good');
    wrongName = ca.issue('wrong-name', { names: 'DNS:gateway.example,IP:127.0.0.2' });
  });

  const proxyTo = (gateway: string, sandbox: ProxyOptions['sandbox'] = {}): Promise<TestProxy> =>
    starts.proxy({ gateway, sandbox: { caFile: ca.file, ...sandbox }, random: () => 0 });

  async function start({ cert, key } = good, tls: TlsOptions = {}): Promise<Pair> {
    const gateway = await starts.gateway([respond], { cert, key, ...tls });
    return { gateway, proxy: await proxyTo(gateway.url) };
  }

  it('and a certificate of the configured CA gets the request, over connections that are reused for queries only', async () => {
    const { gateway, proxy } = await start();
    for (let turn = 0; turn < 5; turn += 1) expect(await proxy.balance()).toMatchObject({ status: 200 });
    expect(gateway.connections()).toBe(1);
    for (let turn = 0; turn < 3; turn += 1) expect(await proxy.transfer()).toMatchObject({ body: '[]' });
    expect(gateway.connections()).toBe(4);
  });

  it.each([
    ['of an unknown CA', () => good, () => ({ caFile: undefined })],
    ['of another CA than the configured one', () => good, () => ({ caFile: otherCa.file })],
    ['for another name', () => wrongName, () => ({})],
  ])('and a certificate %s gets no byte of the request', async (_what, certificate, trusted) => {
    const { gateway } = await start(certificate());
    const proxy = await proxyTo(gateway.url, trusted());
    for (const send of [proxy.transfer, proxy.balance]) expect(verdict(await send())).toBe(unreachable);
    expect(gateway.received()).toBe('');
    for (const line of await proxy.requestLines(2))
      expect(line).toMatchObject({ reason: 'gateway-unreachable', outcome: 'not-sent', attempts: 3 });
  });

  it('of an old TLS version gets nothing', async () => {
    const tls: TlsOptions = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' };
    const { gateway, proxy } = await start(good, tls);
    expect(verdict(await proxy.transfer())).toBe(unreachable);
    expect(gateway.received()).toBe('');
  });

  it('that ends connections in the handshake gets nothing, and TLS is the cause', async () => {
    const server = createServer((socket) => socket.once('data', () => socket.end()));
    const { port } = starts.closing(await listen(server));
    const proxy = await proxyTo(`https://127.0.0.1:${port}`);
    expect(verdict(await proxy.transfer())).toBe(unreachable);
    expect(await proxy.counted('gateway_connection_failures_total', { cause: 'tls' })).toBe(3);
  });

  it('without TLS gets nothing', async () => {
    const gateway = await starts.gateway([respond]);
    // Each of three attempts ends with the connect timeout.
    const proxy = await proxyTo(gateway.url.replace('http:', 'https:'), { timeouts: { connect: '300ms' } });
    expect(verdict(await proxy.transfer())).toBe(unreachable);
    expect(gateway.received()).not.toContain('oauth');
  });

  describe('that requires a client certificate', () => {
    /** Copies a certificate and its key to the files of the configuration. */
    function install({ certFile, keyFile }: Issued): { certFile: string; keyFile: string } {
      const files = { certFile: folder.at('client.crt'), keyFile: folder.at('client.key') };
      copyFileSync(certFile, files.certFile);
      copyFileSync(keyFile, files.keyFile);
      return files;
    }
    const startAs = (gateway: string, client: Issued): Promise<TestProxy> =>
      starts.proxy({
        gateway,
        certificateCheckInterval: 100,
        sandbox: { caFile: ca.file, ...install(client) },
      });
    const peerOf = (socket: Socket): unknown =>
      socket instanceof TLSSocket ? socket.getPeerCertificate().subject.CN : undefined;

    it.each(['TLSv1.2', 'TLSv1.3'] as const)(
      'sees it, and one that replaces it, with %s',
      async (version) => {
        const shown: unknown[] = [];
        const gateway = await starts.gateway(
          [
            (conversation) => {
              shown.push(peerOf(conversation.socket));
              return respond(conversation);
            },
          ],
          { ...good, ca: ca.cert, requestCert: true, minVersion: version, maxVersion: version },
        );
        const proxy = await startAs(gateway.url, ca.issue('first'));
        const both = async () => [(await proxy.balance()).status, (await proxy.transfer()).status];
        expect(await both()).toEqual([200, 200]);
        expect(
          await proxy.metric('certificate_expiry_timestamp_seconds', { certificate: 'gateway-client' }),
        ).toBeGreaterThan(Date.now() / 1000);
        install(ca.issue('second'));
        await until(() => proxy.logLines('certificate files reloaded').length === 1);
        expect(await both()).toEqual([200, 200]);
        expect(shown).toEqual(['first', 'first', 'second', 'second']);
      },
    );

    it.each([
      ['1.2: not sent', '-tls1_2', unreachable, { unreachable: 'tls', outcome: 'not-sent' }],
      ['1.3: unknown', '-tls1_3', '502 gateway-reset unknown unknown', { outcome: 'unknown' }],
    ])('rejects another one with an alert, with TLS %s', async (_what, version, expected, line) => {
      const files = ['-cert', good.certFile, '-key', good.keyFile, '-CAfile', ca.file];
      // Ends the handshake of any other one than of the CA with an alert.
      const strict = [...files, '-Verify', '1', '-verify_return_error', version];
      const gateway = starts.closing(await opensslServer(strict));
      const proxy = await startAs(gateway.url, otherCa.issue('stranger'));
      await until(async () => (await proxy.transfer()).body.includes('TLS alert'));
      const response = await proxy.transfer();
      expect(verdict(response)).toBe(expected);
      expect(JSON.parse(response.body).detail).toContain('(TLS alert: unknown ca)');
      expect(await proxy.lineOf(response)).toMatchObject({ tlsAlert: 'unknown ca', ...line });
      if (version === '-tls1_3')
        expect(JSON.stringify((await proxy.instanceStatus()).findings)).toContain(
          'ends connections with a TLS alert: unknown ca',
        );
      else expect(response.body).toContain('The TLS handshake with the gateway failed (TLS)');
      expect(gateway.output()).not.toContain('HTTP/1.1');
    });
  });
});
