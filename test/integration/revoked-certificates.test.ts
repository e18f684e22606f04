import { X509Certificate } from 'node:crypto';
import { Agent } from 'node:https';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type ConfigInput, everything, tokenCredential } from '../support/config.ts';
import { type HttpResponse, paths, post } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { sameBytes } from '../support/jwt.ts';
import { describeWith } from '../support/requires.ts';
import type { TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';

const starts = harness(afterAll);
let ca: Ca;
let server: Issued;
let first: Issued;
let second: Issued;

const fingerprintOf = ({ cert }: Issued): string => new X509Certificate(cert).fingerprint256;

describeWith('openssl')('a revoked certificate', () => {
  beforeAll(() => {
    ca = new Ca(starts.folder().path, 'ours');
    server = ca.issue('server');
    first = ca.issue('first', { names: 'DNS:billing.internal' });
    second = ca.issue('second', { names: 'DNS:billing.internal, DNS:reports.internal' });
  });

  const configWith = (
    revoked: { all?: string[]; billing?: string[] } = {},
  ): Pick<ConfigInput, 'proxy' | 'callers' | 'revokedCertificates'> => ({
    proxy: { port: 0, tls: { certFile: server.certFile, keyFile: server.keyFile, clientCaFile: ca.file } },
    revokedCertificates: revoked.all ?? [],
    callers: [
      {
        name: 'billing',
        revokedCertificates: revoked.billing ?? [],
        credentials: [{ certificateDns: 'billing.internal' }, tokenCredential('billing-token')],
        allow: [everything],
      },
      { name: 'reports', credentials: [{ certificateDns: 'reports.internal' }], allow: [everything] },
      { name: 'anyone', credentials: [{ anonymous: true }], allow: [everything] },
    ],
  });

  async function start(config = configWith()): Promise<TestProxy> {
    const gateway = await starts.recordingGateway();
    return starts.proxy({ gateway: gateway.url, config });
  }

  /** @param agent keeps its connection, unless it is absent */
  function send(proxy: TestProxy, own: Issued | undefined, headers = {}, agent?: Agent) {
    const client = agent ?? new Agent({ ca: ca.cert, cert: own?.cert, key: own?.key });
    return postOver(client, proxy, headers);
  }

  const postOver = (agent: Agent, proxy: TestProxy, headers = {}): Promise<HttpResponse> =>
    post(`${proxy.url}${paths.balance}`, '', headers, { agent });

  it('is rejected like any wrong credential, and the log says why', async () => {
    const proxy = await start(configWith({ all: [fingerprintOf(first)] }));
    const response = await send(proxy, first);
    expect(response.status).toBe(401);
    const wrong = await send(proxy, second, { Authorization: 'Bearer wrong' });
    expect(sameBytes(response)).toBe(sameBytes(wrong));
    const lines = await proxy.requestLines(2);
    expect(lines[0]).toMatchObject({ credential: 'certificate', certificateProblem: 'CERT_REVOKED' });
    expect(lines[1]).not.toHaveProperty('certificateProblem');
    expect((await send(proxy, second)).status).toBe(200);
  });

  it('is rejected for all also together with a token, and is no anonymous caller', async () => {
    const proxy = await start(configWith({ all: [fingerprintOf(first)] }));
    expect((await send(proxy, first, { Authorization: 'Bearer billing-token' })).status).toBe(401);
    expect((await send(proxy, undefined, { Authorization: 'Bearer billing-token' })).status).toBe(200);
    expect((await send(proxy, undefined)).status).toBe(200);
  });

  it.each([
    ['as OpenSSL prints it', (text: string) => text],
    ['in lower case without colons', (text: string) => text.replaceAll(':', '').toLowerCase()],
  ])('may be written %s', async (_, write) => {
    const proxy = await start(configWith({ all: [write(fingerprintOf(first))] }));
    expect((await send(proxy, first)).status).toBe(401);
  });

  it('of one caller is not accepted as another one or as anonymous', async () => {
    const proxy = await start(configWith({ billing: [fingerprintOf(first), fingerprintOf(second)] }));
    expect((await send(proxy, first)).status).toBe(401);
    expect((await send(proxy, second)).status).toBe(401);
    // The token of the same caller is another credential.
    expect((await send(proxy, first, { Authorization: 'Bearer billing-token' })).status).toBe(200);
  });

  it('loses access at a reload, on its open connection', async () => {
    const proxy = await start();
    const agent = new Agent({
      keepAlive: true,
      maxSockets: 1,
      ca: ca.cert,
      cert: first.cert,
      key: first.key,
    });
    try {
      expect((await send(proxy, first, {}, agent)).status).toBe(200);
      const [kept] = Object.values(agent.freeSockets).flat();
      const before = kept?.bytesRead ?? 0;
      await proxy.reload(configWith({ all: [fingerprintOf(first)] }));
      expect((await send(proxy, first, {}, agent)).status).toBe(401);
      expect(kept?.bytesRead).toBeGreaterThan(before);
      await proxy.reload(configWith());
      expect((await send(proxy, first, {}, agent)).status).toBe(200);
    } finally {
      agent.destroy();
    }
  });
});
