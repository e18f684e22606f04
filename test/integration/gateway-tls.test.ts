import { createServer } from 'node:net';
import { TLSSocket, type TlsOptions } from 'node:tls';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { always, httpResponse, startTcpServer } from '../support/faulty-gateway.ts';
import { Folder } from '../support/folder.ts';
import { verdict } from '../support/forwarding.ts';
import { harness, type Pair } from '../support/harness.ts';
import { listen } from '../support/listening.ts';
import { describeWith } from '../support/requires.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';

const starts = harness();

const unreachable = '502 gateway-unreachable not-sent not-sent';

/** Certificates are made with openssl; these tests are skipped if it is not installed. */
describeWith('openssl')('a gateway with TLS', () => {
  const folder = new Folder();
  let ca: Ca;
  let otherCa: Ca;
  let certificates: Readonly<Record<'good' | 'wrong-name', Issued>>;

  beforeAll(() => {
    ca = new Ca(folder.path, 'ca');
    otherCa = new Ca(folder.path, 'other-ca');
    const names = 'DNS:gateway.example,IP:127.0.0.2';
    certificates = { good: ca.issue('good'), 'wrong-name': ca.issue('wrong-name', { names }) };
  });
  afterAll(() => folder.remove());

  async function start(
    certificate: keyof typeof certificates,
    trusted: Ca | undefined,
    tls: TlsOptions = {},
  ): Promise<Pair> {
    const { cert, key } = certificates[certificate];
    const gateway = await starts.gateway([always(httpResponse('200 OK', '[]'))], { cert, key, ...tls });
    const sandbox = trusted === undefined ? {} : { caFile: trusted.file };
    return { gateway, proxy: await starts.proxy({ gateway: gateway.url, sandbox, random: () => 0 }) };
  }

  it('and a certificate of the configured CA gets the request', async () => {
    const { gateway, proxy } = await start('good', ca);
    expect(await proxy.transfer()).toMatchObject({ status: 200, body: '[]' });
    expect(gateway.requests()).toHaveLength(1);
  });

  it('has its connections reused for read-only operations only', async () => {
    const { gateway, proxy } = await start('good', ca);
    for (let turn = 0; turn < 5; turn += 1) expect(await proxy.balance()).toMatchObject({ status: 200 });
    expect(gateway.connections()).toBe(1);
    for (let turn = 0; turn < 3; turn += 1) expect(await proxy.transfer()).toMatchObject({ status: 200 });
    expect(gateway.connections()).toBe(4);
  });

  it.each([
    ['of an unknown CA', 'good', (): undefined => undefined],
    ['of another CA than the configured one', 'good', (): Ca => otherCa],
    ['for another name', 'wrong-name', (): Ca => ca],
  ] as const)('and a certificate %s gets no byte of the request', async (_what, certificate, trusted) => {
    const { gateway, proxy } = await start(certificate, trusted());
    for (const send of [proxy.transfer, proxy.balance]) expect(verdict(await send())).toBe(unreachable);
    expect(gateway.received()).toBe('');
    for (const line of await proxy.requestLines(2)) {
      expect(line).toMatchObject({ reason: 'gateway-unreachable', outcome: 'not-sent', attempts: 3 });
    }
  });

  it('of an old TLS version gets nothing', async () => {
    const tls: TlsOptions = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' };
    const { gateway, proxy } = await start('good', ca, tls);
    expect(verdict(await proxy.transfer())).toBe(unreachable);
    expect(gateway.received()).toBe('');
  });

  it('that requires a client certificate closes after the handshake: the outcome is unknown', async () => {
    const tls: TlsOptions = { requestCert: true, rejectUnauthorized: true, ca: ca.cert };
    const { gateway, proxy } = await start('good', ca, tls);
    expect(verdict(await proxy.transfer())).toBe('502 gateway-reset unknown unknown');
    expect(gateway.requests()).toHaveLength(0);
  });

  it.each(['close_notify', 'a FIN', 'a reset'])(
    'that ends a response without a length by %s leaves the outcome of a payment unknown',
    async (how) => {
      const { cert, key } = certificates.good;
      const part =
        'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\ntype=transfer-response\n&gw-order-id=12';
      const server = await startTcpServer((raw) => {
        const tls = new TLSSocket(raw, { isServer: true, cert, key });
        const end = (): unknown => {
          if (how === 'close_notify') return tls.end();
          return how === 'a FIN' ? raw.end() : raw.resetAndDestroy();
        };
        tls.on('error', () => {}).once('data', () => tls.write(part, end));
      });
      starts.closing(server);
      const gateway = server.url.replace('http:', 'https:');
      const proxy = await starts.proxy({ gateway, sandbox: { caFile: ca.file } });
      expect(['502 gateway-reply-invalid unknown unknown', '502 gateway-reset unknown unknown']).toContain(
        verdict(await proxy.transfer()),
      );
    },
  );

  it('that ends connections in the handshake gets nothing, and TLS is the cause', async () => {
    const server = createServer((socket) => socket.once('data', () => socket.end()));
    const { port } = starts.closing(await listen(server));
    const proxy = await starts.proxy({ gateway: `https://127.0.0.1:${port}`, random: () => 0 });
    expect(verdict(await proxy.transfer())).toBe(unreachable);
    expect(await proxy.counted('gateway_connection_failures_total', { cause: 'tls' })).toBe(3);
  });

  it('without TLS gets nothing', async () => {
    const gateway = await starts.gateway([always(httpResponse('200 OK', '[]'))]);
    // Each of three attempts ends with the connect timeout.
    const sandbox = { timeouts: { connect: '500ms' } };
    const proxy = await starts.proxy({ gateway: gateway.url.replace('http:', 'https:'), sandbox });
    expect(verdict(await proxy.transfer())).toBe(unreachable);
    expect(gateway.received()).not.toContain('oauth');
  });
});
