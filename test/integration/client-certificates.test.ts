import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { Agent, type AgentOptions } from 'node:https';
import type { Socket } from 'node:net';
import { connect, getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { everything } from '../support/config.ts';
import { paths, post, transferForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { opensslClient } from '../support/openssl-peers.ts';
import { formRequest } from '../support/raw-http.ts';
import type { RecordingGateway } from '../support/recording-gateway.ts';
import { describeWith } from '../support/requires.ts';
import type { ProxyOptions, TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';
import { until } from '../support/until.ts';

const starts = harness(afterAll);
const day = 86_400_000;
const uri = 'spiffe://test/ns/pay/sa/billing';

describeWith('openssl')('a caller with a client certificate', () => {
  let ours: Ca;
  let theirs: Ca;
  let server: Issued;
  let billing: Issued;
  let gateway: RecordingGateway;
  let proxy: TestProxy;

  beforeAll(async () => {
    const folder = starts.folder();
    [ours, theirs] = [new Ca(folder.path, 'ours'), new Ca(folder.path, 'theirs')];
    server = ours.issue('server');
    billing = ours.issue('billing', { names: `URI:${uri}` });
    gateway = await starts.recordingGateway();
    proxy = await start(ours);
  }, 60_000);

  const start = (clientCa?: Ca, options: ProxyOptions = {}): Promise<TestProxy> =>
    starts.proxy({ gateway: gateway.url, config: configWith(clientCa), ...options });

  function configWith(clientCa?: Ca) {
    const { certFile, keyFile } = server;
    const tls = { certFile, keyFile, ...(clientCa && { clientCaFile: clientCa.file }) };
    return {
      proxy: { port: 0, timeouts: { headers: '300ms' }, tls },
      callers: [
        { name: 'billing', credentials: [{ certificateUri: uri }], allow: [everything] },
        { name: 'reports', credentials: [{ certificateDns: 'reports.internal' }], allow: [everything] },
      ],
    };
  }

  /** Presents this certificate. */
  function agentOf(issued?: Issued, options: AgentOptions = {}): Agent {
    const own = issued === undefined ? {} : { cert: issued.cert, key: issued.key };
    const agent = new Agent({ ca: ours.cert, ...own, maxCachedSessions: 0, ...options });
    starts.atEnd(() => agent.destroy());
    return agent;
  }
  const keeping = (issued: Issued) => agentOf(issued, { keepAlive: true, maxSockets: 1 });
  const kept = (agent: Agent) => Object.values(agent.freeSockets).flat()[0];

  /** The status, and the caller in the log line. */
  async function send(agent: Agent, of: TestProxy = proxy, headers = {}): Promise<[number, unknown]> {
    const response = await post(`${of.url}${paths.balance}`, '', headers, { agent });
    const id = response.headers['x-request-id'];
    return [response.status, of.logLines().find(({ requestId }) => requestId === id)?.caller];
  }

  it('is authenticated by its URI, or by its DNS name in any case, and the debug log says by which', async () => {
    const debugging = await start(ours, { logLevel: 'debug' });
    expect(await send(agentOf(billing), debugging)).toEqual([200, 'billing']);
    expect(debugging.logLines('caller authenticated')).toEqual([
      expect.objectContaining({
        caller: 'billing',
        credential: 'certificate',
        certificateName: uri,
        certificateFingerprint: new X509Certificate(billing.cert).fingerprint256,
      }),
    ]);
    const reports = ours.issue('reports', { names: 'DNS:Reports.Internal' });
    expect(await send(agentOf(reports))).toEqual([200, 'reports']);
  });

  it.each<[string, () => Issued | undefined]>([
    ['none', () => undefined],
    ['one of a name that is not configured', () => ours.issue('a', { names: 'DNS:stranger.internal' })],
    ['one without URI and DNS name', () => ours.issue('b', { names: 'email:spiffe@test.invalid' })],
    ['one of a wildcard, which is a name like any other', () => ours.issue('c', { names: 'DNS:*.internal' })],
    ['one of another CA', () => theirs.issue('d', { names: `URI:${uri}` })],
    [
      'one that has expired',
      () => ours.issue('e', { names: `URI:${uri}`, from: Date.now() - day, until: Date.now() - day / 24 }),
    ],
  ])('is unknown with %s, whatever a header says of one', async (_, issue) => {
    const before = gateway.requests.length;
    const headers = { 'X-Forwarded-Client-Cert': `URI=${uri}`, 'X-SSL-Client-Verify': 'SUCCESS' };
    expect(await send(agentOf(issue()), proxy, headers)).toEqual([401, undefined]);
    expect(gateway.requests).toHaveLength(before);
  });

  it('is unknown without a configured client CA, even with a certificate of a public CA, which is not requested', async () => {
    const publicOnes = getCACertificates('default');
    setDefaultCACertificates([...publicOnes, ours.cert.toString()]);
    const open = await start();
    try {
      expect(await send(agentOf(billing), open)).toEqual([401, undefined]);
    } finally {
      setDefaultCACertificates(publicOnes);
    }
    const own = ['-cert', billing.certFile, '-key', billing.keyFile];
    const { output } = await opensslClient(open.url, own);
    expect(output).toContain('No client certificate CA names sent');
    expect(output).not.toContain('Requested Signature Algorithms');
  });

  it('is unknown if it resumes the session of a certificate of another CA, or of one that was removed', async () => {
    const changing = await start(ours);
    const sending = async (issued: Issued, session?: Buffer) => {
      const agent = agentOf(issued, session && { session });
      let given: Buffer | undefined;
      agent.on('keylog', (_line, socket: Socket) =>
        socket.once('session', (next: Buffer) => {
          given = next;
        }),
      );
      return { status: (await send(agent, changing))[0], session: given };
    };
    const forged = theirs.issue('forged', { names: `URI:${uri}` });
    const [first, good] = [await sending(forged), await sending(billing)];
    expect([first.status, good.status]).toEqual([401, 200]);
    expect([first.session, good.session]).not.toContain(undefined);
    expect((await sending(forged, first.session)).status).toBe(401);
    expect((await sending(billing, good.session)).status).toBe(200);
    await changing.reload(configWith(theirs));
    expect((await sending(billing, good.session)).status).toBe(401);
  });

  it('is unknown after its certificate has expired, even on an open connection', async () => {
    let now = Date.now();
    const lasting = await start(ours, { clock: () => now });
    const agent = keeping(billing);
    expect(await send(agent, lasting)).toEqual([200, 'billing']);
    now += 3 * day;
    const connection = kept(agent);
    const before = connection?.bytesRead ?? 0;
    expect(await send(agent, lasting)).toEqual([401, undefined]);
    expect(connection?.bytesRead).toBeGreaterThan(before);
  });

  it('keeps its connection after a reload with the same CA, and loses it with another CA', async () => {
    const changing = await start(ours);
    const agent = keeping(billing);
    expect(await send(agent, changing)).toEqual([200, 'billing']);
    const connection = kept(agent);
    await changing.reload(configWith(ours));
    expect(await send(agent, changing)).toEqual([200, 'billing']);
    expect(kept(agent)).toBe(connection);
    await changing.reload(configWith(theirs));
    await until(() => connection?.destroyed === true);
    expect(await send(agent, changing)).toEqual([401, undefined]);
  });

  it('gets the pending response if another CA is configured, as the last one', async () => {
    const changing = await start(ours);
    const agent = keeping(billing);
    const going = Promise.withResolvers<void>();
    const { respond } = gateway;
    gateway.respond = (response) => void going.promise.then(() => response.end('OK'));
    const before = gateway.requests.length;
    const response = send(agent, changing);
    await until(() => gateway.requests.length > before);
    await changing.reload(configWith(theirs));
    going.resolve();
    expect(await response).toEqual([200, 'billing']);
    expect(kept(agent)).toBeUndefined();
    gateway.respond = respond;
  });

  it('is disconnected if its TLS handshake takes longer than timeouts.headers', async () => {
    const idle = await proxy.connect();
    const began = performance.now();
    await idle.gone();
    // The timeout is 300 ms; by default it is 10 s.
    expect(performance.now() - began).toBeGreaterThan(200);
    expect(performance.now() - began).toBeLessThan(8_000);
    expect(idle.pending).toBe(0);
  });

  it('can send the largest forms, and a request with its first flight before it ends its side', async () => {
    const form = `${transferForm}&comment=${'x'.repeat(60_000)}`;
    const agent = keeping(billing);
    for (let count = 0; count < 3; count += 1)
      expect((await post(`${proxy.url}${paths.transfer}`, form, {}, { agent })).status).toBe(200);
    const { hostname: host, port } = new URL(proxy.url);
    const own = { ca: ours.cert, cert: billing.cert, key: billing.key, allowHalfOpen: true };
    const tls = connect({ host, port: Number(port), ...own });
    const chunks: Buffer[] = [];
    tls.on('data', (chunk: Buffer) => chunks.push(chunk));
    tls.end(formRequest(paths.transfer, transferForm));
    await once(tls, 'end');
    expect(Buffer.concat(chunks).toString()).toMatch(/^HTTP\/1\.1 200 OK/);
    tls.destroy();
  });
});
