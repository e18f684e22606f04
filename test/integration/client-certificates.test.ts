import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { Agent, type AgentOptions } from 'node:https';
import type { Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import {
  type ConnectionOptions,
  connect as connectTls,
  getCACertificates,
  setDefaultCACertificates,
  type TLSSocket,
} from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type ConfigInput, everything, tokenCredential } from '../support/config.ts';
import { paths, post, transferForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { sameBytes } from '../support/jwt.ts';
import { opensslClient } from '../support/openssl-peers.ts';
import { formRequest } from '../support/raw-http.ts';
import type { RecordingGateway } from '../support/recording-gateway.ts';
import { startRelay } from '../support/relay.ts';
import { describeWith } from '../support/requires.ts';
import type { ProxyOptions, TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';
import { until } from '../support/until.ts';

const starts = harness(afterAll);
const day = 86_400_000;
const uri = 'spiffe://test/ns/pay/sa/billing';
const token = { Authorization: 'Bearer token' };

const named = [
  { name: 'billing', credentials: [{ certificateUri: uri }], allow: [everything] },
  { name: 'reports', credentials: [{ certificateDns: 'reports.internal' }], allow: [everything] },
];
const anyone = { name: 'anyone', credentials: [{ anonymous: true as const }], allow: [everything] };
const other = { name: 'other', credentials: [tokenCredential('token')], allow: [everything] };

describeWith('openssl')('a caller with a client certificate', () => {
  let ours: Ca;
  let theirs: Ca;
  let server: Issued;
  let billing: Issued;
  /** Another certificate of billing, and a revocation list with and without it. */
  let revoked: Issued;
  let lists: { readonly empty: string; readonly full: string };
  let gateway: RecordingGateway;
  let proxy: TestProxy;

  beforeAll(async () => {
    const folder = starts.folder();
    [ours, theirs] = [new Ca(folder.path, 'ours'), new Ca(folder.path, 'theirs')];
    server = ours.issue('server');
    billing = ours.issue('billing', { names: `URI:${uri}` });
    revoked = ours.issue('revoked', { names: `URI:${uri}` });
    const empty = ours.revocationList();
    // Lists have whole seconds.
    await wait(1_100);
    lists = { empty, full: ours.revocationList(revoked) };
    gateway = await starts.recordingGateway();
    proxy = await start();
  }, 60_000);

  /** @param tls fields of the listener */
  function configWith(tls: object = verifying(), callers: ConfigInput['callers'] = named) {
    const { certFile, keyFile } = server;
    return { proxy: { port: 0, tls: { certFile, keyFile, ...tls } }, callers };
  }
  const verifying = (ca = ours) => ({ clientCaFile: ca.file });
  /** With a revocation list, in a file of its own. */
  const listing = (list = lists.empty) => ({
    ...verifying(),
    clientCrlFile: starts.folder().file('crl.pem', list),
  });

  const start = (
    config: Partial<ConfigInput> = configWith(),
    options: ProxyOptions = {},
  ): Promise<TestProxy> => starts.proxy({ gateway: gateway.url, config, ...options });

  /** Presents this certificate. */
  function agentOf(issued?: Issued, options: AgentOptions = {}): Agent {
    const own = issued === undefined ? {} : { cert: issued.cert, key: issued.key };
    const agent = new Agent({ ca: ours.cert, ...own, maxCachedSessions: 0, ...options });
    starts.atEnd(() => agent.destroy());
    return agent;
  }
  const keeping = (issued = billing) => agentOf(issued, { keepAlive: true, maxSockets: 1 });
  const kept = (agent: Agent) => Object.values(agent.freeSockets).flat()[0];

  /** The status, and the caller in the log line. */
  async function send(of: TestProxy, agent = agentOf(billing), headers = {}): Promise<[number, unknown]> {
    const response = await post(`${of.url}${paths.balance}`, '', headers, { agent });
    const id = response.headers['x-request-id'];
    return [response.status, of.logLines().find(({ requestId }) => requestId === id)?.caller];
  }
  const problemsOf = async (of: TestProxy, count: number) =>
    (await of.requestLines(count)).map(({ certificateProblem }) => certificateProblem);

  function connect(url: string, options: ConnectionOptions = {}): TLSSocket {
    const { hostname: host, port } = new URL(url);
    const own = { ca: ours.cert, cert: revoked.cert, key: revoked.key, ...options };
    const tls = connectTls({ host, port: Number(port), ...own });
    tls.on('error', () => {});
    starts.atEnd(() => tls.destroy());
    return tls;
  }
  /** All that the client receives until its connection ends. */
  async function received(tls: TLSSocket): Promise<string> {
    const chunks: Buffer[] = [];
    tls.on('data', (chunk: Buffer) => chunks.push(chunk));
    await once(tls, 'close');
    return Buffer.concat(chunks).toString();
  }

  it('is authenticated by its URI, or by its DNS name in any case, and the debug log says by which', async () => {
    const debugging = await start(configWith(), { logLevel: 'debug' });
    expect(await send(debugging)).toEqual([200, 'billing']);
    expect(debugging.logLines('caller authenticated')).toEqual([
      expect.objectContaining({
        caller: 'billing',
        credential: 'certificate',
        certificateName: uri,
        certificateFingerprint: new X509Certificate(billing.cert).fingerprint256,
      }),
    ]);
    const reports = ours.issue('reports', { names: 'DNS:Reports.Internal' });
    expect(await send(proxy, agentOf(reports))).toEqual([200, 'reports']);
  });

  it.each<[string, () => Issued | undefined]>([
    ['none', () => undefined],
    ['one of a wildcard, which is a name like any other', () => ours.issue('c', { names: 'DNS:*.internal' })],
    ['one of another CA', () => theirs.issue('d', { names: `URI:${uri}` })],
    [
      'one that has expired',
      () => ours.issue('e', { names: `URI:${uri}`, from: Date.now() - day, until: Date.now() - day / 24 }),
    ],
  ])('is unknown with %s, whatever a header says of one', async (_, issue) => {
    const before = gateway.requests.length;
    const headers = { 'X-Forwarded-Client-Cert': `URI=${uri}`, 'X-SSL-Client-Verify': 'SUCCESS' };
    expect(await send(proxy, agentOf(issue()), headers)).toEqual([401, undefined]);
    expect(gateway.requests).toHaveLength(before);
  });

  it('is unknown without a configured client CA, even with a certificate of a public CA, which is not requested', async () => {
    const publicOnes = getCACertificates('default');
    setDefaultCACertificates([...publicOnes, ours.cert.toString()]);
    const open = await start(configWith({}));
    try {
      expect(await send(open)).toEqual([401, undefined]);
    } finally {
      setDefaultCACertificates(publicOnes);
    }
    const own = ['-cert', billing.certFile, '-key', billing.keyFile];
    const { output } = await opensslClient(open.url, own);
    expect(output).toContain('No client certificate CA names sent');
    expect(output).not.toContain('Requested Signature Algorithms');
  });

  it('is unknown if it resumes the session of a certificate of another CA, or of one that was removed', async () => {
    const changing = await start();
    const sending = async (issued: Issued, session?: Buffer) => {
      const agent = agentOf(issued, session && { session });
      let given: Buffer | undefined;
      agent.on('keylog', (_line, socket: Socket) =>
        socket.once('session', (next: Buffer) => {
          given = next;
        }),
      );
      return { status: (await send(changing, agent))[0], session: given };
    };
    const forged = theirs.issue('forged', { names: `URI:${uri}` });
    const [first, good] = [await sending(forged), await sending(billing)];
    expect([first.status, good.status]).toEqual([401, 200]);
    expect([first.session, good.session]).not.toContain(undefined);
    expect((await sending(forged, first.session)).status).toBe(401);
    expect((await sending(billing, good.session)).status).toBe(200);
    await changing.reload(configWith(verifying(theirs)));
    expect((await sending(billing, good.session)).status).toBe(401);
  });

  it('is unknown after its certificate has expired, even on an open connection', async () => {
    let now = Date.now();
    const lasting = await start(configWith(), { clock: () => now });
    const agent = keeping();
    expect(await send(lasting, agent)).toEqual([200, 'billing']);
    now += 3 * day;
    const connection = kept(agent);
    const before = connection?.bytesRead ?? 0;
    expect(await send(lasting, agent)).toEqual([401, undefined]);
    expect(await problemsOf(lasting, 2)).toEqual([undefined, 'CERT_HAS_EXPIRED']);
    expect(connection?.bytesRead).toBeGreaterThan(before);
  });

  it('keeps its connection after a reload with the same CA, and loses it with another CA', async () => {
    const changing = await start();
    const agent = keeping();
    expect(await send(changing, agent)).toEqual([200, 'billing']);
    const connection = kept(agent);
    await changing.reload(configWith());
    expect(await send(changing, agent)).toEqual([200, 'billing']);
    expect(kept(agent)).toBe(connection);
    await changing.reload(configWith(verifying(theirs)));
    await until(() => connection?.destroyed === true);
    expect(await send(changing, agent)).toEqual([401, undefined]);
  });

  it('gets the pending response if another CA is configured, as the last one', async () => {
    const changing = await start();
    const agent = keeping();
    const going = Promise.withResolvers<void>();
    const { respond } = gateway;
    gateway.respond = (response) => void going.promise.then(() => response.end('OK'));
    const before = gateway.requests.length;
    const response = send(changing, agent);
    await until(() => gateway.requests.length > before);
    await changing.reload(configWith(verifying(theirs)));
    going.resolve();
    expect(await response).toEqual([200, 'billing']);
    expect(kept(agent)).toBeUndefined();
    gateway.respond = respond;
  });

  it('gets no response if its CA was removed before the head of its request was complete', async () => {
    const changing = await start();
    const tls = connect(changing.url);
    await once(tls, 'secureConnect');
    const request = formRequest(paths.balance);
    await new Promise<void>((resolve) => void tls.write(request.slice(0, -2), () => resolve()));
    await changing.reload(configWith(verifying(theirs)));
    tls.write('\r\n');
    expect(await received(tls)).not.toContain('200 OK');
  });

  it('does not stay anonymous on a connection from before there was a client CA', async () => {
    const changing = await start(configWith({}, [anyone]));
    const agent = keeping();
    expect(await send(changing, agent)).toEqual([200, 'anyone']);
    const connection = kept(agent);
    await changing.reload(configWith(undefined, [...named, anyone]));
    await until(() => connection?.destroyed === true, 'the connection from before has ended');
    expect(await send(changing, agent)).toEqual([200, 'billing']);
  });

  it('cannot present another certificate later: a client of TLS 1.2 cannot renegotiate, also after a reload', async () => {
    const changing = await start();
    for (const tls of [verifying(), verifying(theirs)]) {
      await changing.reload(configWith(tls));
      const client = connect(changing.url, { maxVersion: 'TLSv1.2' });
      await once(client, 'secureConnect');
      const error = await new Promise((resolve) => {
        client.once('error', resolve);
        client.renegotiate({}, resolve);
      });
      expect(error).toMatchObject({ code: 'ERR_SSL_NO_RENEGOTIATION' });
    }
  });

  it('is disconnected if its TLS handshake takes longer than timeouts.headers', async () => {
    const { proxy: listener, callers } = configWith();
    const hasty = await start({ proxy: { ...listener, timeouts: { headers: '300ms' } }, callers });
    const idle = await hasty.connect();
    const began = performance.now();
    await idle.gone();
    // The timeout is 300 ms; by default it is 10 s.
    expect(performance.now() - began).toBeGreaterThan(200);
    expect(performance.now() - began).toBeLessThan(8_000);
    expect(idle.pending).toBe(0);
  });

  describe('during whose handshake there is a reload', () => {
    it.each([
      ['gets no response if its CA is removed', () => verifying(theirs), /^$/],
      ['gets no response if it is revoked', () => listing(lists.full), /^$/],
      ['gets its response if nothing changes', () => verifying(), /^HTTP\/1\.1 200 OK/],
    ])('%s', async (_, next, expected) => {
      const changing = await start();
      const relay = starts.closing(await startRelay(Number(new URL(changing.url).port)));
      relay.hold();
      const tls = connect(`https://127.0.0.1:${relay.port}`);
      tls.once('secureConnect', () => tls.write(formRequest(paths.balance, '', ['Connection: close'])));
      await until(() => relay.held() > 0, 'the server has sent its flight');
      await changing.reload(configWith(next()));
      relay.releaseAllBut(0);
      expect(await received(tls)).toMatch(expected);
    });
  });

  describe('with revocation lists', () => {
    it('is rejected as unknown ones are, also on an open connection, and the log says why', async () => {
      const changing = await start(configWith(listing()));
      const agent = keeping(revoked);
      expect(await send(changing, agent)).toEqual([200, 'billing']);
      const connection = kept(agent);
      await changing.reload(configWith(listing(lists.full)));
      await until(() => connection?.destroyed === true, 'the connection has ended');
      const bytesFor = async (issued: Issued) =>
        sameBytes(
          await post(`${changing.url}${paths.transfer}`, transferForm, {}, { agent: agentOf(issued) }),
        );
      const unknown = ours.issue('unknown', { names: 'DNS:unknown.internal' });
      expect(await bytesFor(revoked)).toBe(await bytesFor(unknown));
      expect((await problemsOf(changing, 2))[1]).toBe('CERT_REVOKED');
      expect(await send(changing)).toEqual([200, 'billing']);
    });

    it.each([
      ['is on one', () => lists.full, 'CERT_REVOKED'],
      ['has no valid one', () => theirs.revocationList(), 'UNABLE_TO_GET_CRL'],
    ])('that %s is no anonymous caller, and no token helps it', async (_, list, problem) => {
      const both = await start(configWith(listing(list()), [other, anyone]));
      const agent = agentOf(revoked);
      expect([await send(both, agent), await send(both, agent, token)]).toEqual([
        [401, undefined],
        [401, undefined],
      ]);
      expect(await problemsOf(both, 2)).toEqual([problem, problem]);
      expect([await send(both, agentOf()), await send(both, agentOf(), token)]).toEqual([
        [200, 'anyone'],
        [200, 'other'],
      ]);
    });

    it('and a certificate of another CA is as good as without', async () => {
      const both = await start(configWith(listing(), [other, anyone]));
      const foreign = agentOf(theirs.issue('foreign', { names: `URI:${uri}` }));
      expect([await send(both, foreign), await send(both, foreign, token)]).toEqual([
        [200, 'anyone'],
        [200, 'other'],
      ]);
    });

    it('is rejected after a list was replaced without a reload; junk and an older list are findings, and not used', async () => {
      const tls = listing();
      const changing = await start(configWith(tls), { certificateCheckInterval: 100 });
      const agent = agentOf(revoked);
      expect(await send(changing, agent)).toEqual([200, 'billing']);
      writeFileSync(tls.clientCrlFile, '-----BEGIN X509 CRL-----\nMARK\n-----END X509 CRL-----\n');
      await until(() => changing.logText().includes('certificate files are unusable'));
      expect(changing.logLines('certificate files are unusable; keeping the previous ones')).toEqual([
        expect.objectContaining({
          fault: `${tls.clientCrlFile} contains no valid PEM certificate revocation list with a nextUpdate`,
        }),
      ]);
      expect(await changing.statusPages()).toContain('certificate-files-unusable');
      expect(await send(changing, agent)).toEqual([200, 'billing']);
      writeFileSync(tls.clientCrlFile, lists.full);
      // A handshake during the replacement ends without a response.
      await until(async () => (await send(changing, agent).catch(() => [0]))[0] === 401, 'the list is used');
      expect(await changing.statusPages()).not.toContain('certificate-files-unusable');
      writeFileSync(tls.clientCrlFile, lists.empty);
      await until(async () => (await changing.statusPages()).includes('older than the one in use'));
      expect(await send(changing, agent)).toEqual([401, undefined]);
    });

    it('is rejected after the end of the list, which is a metric and a finding before', async () => {
      const ending = await start(configWith(listing(ours.revocationList(undefined, { seconds: 5 }))));
      const labels = { certificate: 'listener-client-crl' };
      const ends = await ending.counted('certificate_expiry_timestamp_seconds', labels);
      expect(Math.abs(ends - Date.now() / 1000)).toBeLessThan(10);
      expect(await ending.statusPages()).toContain('listener-client-crl');
      await until(async () => (await send(ending))[0] === 401, 'the list has expired');
      expect((await problemsOf(ending, 1)).at(-1)).toBe('CRL_HAS_EXPIRED');
    });
  });
});
