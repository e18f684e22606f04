import { once } from 'node:events';
import { Agent } from 'node:https';
import { connect } from 'node:tls';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { everything } from '../support/config.ts';
import { paths, post, transferForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { formRequest } from '../support/raw-http.ts';
import { describeWith } from '../support/requires.ts';
import type { TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';

const starts = harness(afterAll);

describeWith('openssl')('a TLS handshake with client certificates', () => {
  let ca: Ca;
  let client: Issued;
  let proxy: TestProxy;

  beforeAll(async () => {
    ca = new Ca(starts.folder().path, 'ca');
    const { certFile, keyFile } = ca.issue('server');
    client = ca.issue('client', { names: 'DNS:billing.internal' });
    const gateway = await starts.recordingGateway();
    proxy = await starts.proxy({
      gateway: gateway.url,
      config: {
        proxy: { port: 0, tls: { certFile, keyFile, clientCaFile: ca.file } },
        callers: [
          { name: 'billing', credentials: [{ certificateDns: 'billing.internal' }], allow: [everything] },
        ],
      },
    });
  }, 60_000);

  it('with a usual chain is completed, and its request can be as large as any', async () => {
    const agent = new Agent({
      keepAlive: true,
      maxSockets: 1,
      ca: ca.cert,
      cert: client.cert,
      key: client.key,
    });
    starts.atEnd(() => agent.destroy());
    const form = `${transferForm}&comment=${'x'.repeat(60_000)}`;
    for (let count = 0; count < 3; count += 1) {
      expect((await post(`${proxy.url}${paths.transfer}`, form, {}, { agent })).status).toBe(200);
    }
  });

  it('can be followed at once by a request and the end of the sending side', async () => {
    const { hostname: host, port } = new URL(proxy.url);
    const own = { ca: ca.cert, cert: client.cert, key: client.key, allowHalfOpen: true };
    const tls = connect({ host, port: Number(port), ...own });
    const chunks: Buffer[] = [];
    tls.on('data', (chunk: Buffer) => chunks.push(chunk));
    tls.end(formRequest(paths.transfer, transferForm));
    await once(tls, 'end');
    expect(Buffer.concat(chunks).toString()).toMatch(/^HTTP\/1\.1 200 OK/);
    tls.destroy();
  });

  it('leaves the address of the client known', async () => {
    await post(`${proxy.url}${paths.balance}`, '', {}, { agent: new Agent({ ca: ca.cert }) });
    expect((await proxy.requestLines(1)).at(-1)).toMatchObject({ status: 401, peer: '127.0.0.1' });
  });
});
