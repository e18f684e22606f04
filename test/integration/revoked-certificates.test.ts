import { writeFileSync } from 'node:fs';
import { Agent } from 'node:https';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type ConfigInput, everything } from '../support/config.ts';
import { type HttpResponse, paths, post, transferForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { sameBytes } from '../support/jwt.ts';
import { describeWith } from '../support/requires.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';

type Config = Pick<ConfigInput, 'proxy' | 'callers'>;

const starts = harness(afterAll);
let ca: Ca;
let server: Issued;
let good: Issued;

const callers = ['billing', 'reports'].map((name) => ({
  name,
  credentials: [{ certificateDns: `${name}.internal` }],
  allow: [everything],
}));

describeWith('openssl')('a certificate cannot pay, also on a connection from before,', () => {
  beforeAll(() => {
    ca = new Ca(starts.folder().path, 'ours');
    server = ca.issue('server');
    good = ca.issue('good', { names: 'DNS:reports.internal' });
  });

  /** What revokes a certificate of `billing`: the configuration to reload. */
  const revocations: [string, (own: Issued, config: Config) => Config][] = [
    [
      'once it is on the revocation list of its CA',
      (own, config) => {
        writeFileSync(config.proxy?.tls?.clientCrlFile ?? '', ca.revocationList(own));
        return config;
      },
    ],
    ['once its caller was removed', (_, config) => ({ ...config, callers: callers.slice(1) })],
  ];

  it.each(revocations)('%s', async (_, revoke) => {
    const own = ca.issue('own', { names: 'DNS:billing.internal' });
    const clientCrlFile = starts.folder().file('crl.pem', ca.revocationList());
    const { certFile, keyFile } = server;
    const tls = { certFile, keyFile, clientCaFile: ca.file, clientCrlFile };
    const config: Config = { proxy: { port: 0, tls }, callers };
    const gateway = await starts.recordingGateway();
    const proxy = await starts.proxy({ gateway: gateway.url, config });
    const pay = (
      { cert, key }: Issued,
      agent = new Agent({ ca: ca.cert, cert, key }),
    ): Promise<HttpResponse> => post(`${proxy.url}${paths.transfer}`, transferForm, {}, { agent });
    const before = new Agent({ keepAlive: true, ca: ca.cert, cert: own.cert, key: own.key });
    starts.atEnd(() => before.destroy());
    expect((await pay(own, before)).status).toBe(200);

    await proxy.reload(revoke(own, config));
    // A connection that ends with the reload makes no payment either.
    const onOldConnection = await pay(own, before).catch((error: unknown) => String(error));
    expect(['Error: socket hang up', 401]).toContain(
      typeof onOldConnection === 'string' ? onOldConnection : onOldConnection.status,
    );
    const unknown = await pay(ca.issue('unknown', { names: 'DNS:unknown.internal' }));
    expect(sameBytes(await pay(own))).toBe(sameBytes(unknown));
    expect(gateway.requests).toHaveLength(1);
    expect((await pay(good)).status).toBe(200);
  });
});
