import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { Agent } from 'node:https';
import { connect as connectTcp, createServer, type Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { beforeEach, expect, it } from '@jest/globals';
import { type ConfigInput, everything, tokenCredential } from '../support/config.ts';
import { paths, post, transferForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { sameBytes } from '../support/jwt.ts';
import { listen } from '../support/listening.ts';
import { formRequest } from '../support/raw-http.ts';
import { describeWith } from '../support/requires.ts';
import type { TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';
import { until } from '../support/until.ts';

describeWith('openssl')('client certificates', () => {
  const starts = harness();
  let ca: Ca;
  let other: Ca;
  let server: Issued;
  let client: Issued;
  let crlFile: string;

  beforeEach(() => {
    const folder = starts.folder();
    ca = new Ca(folder.path, 'ours');
    other = new Ca(folder.path, 'theirs');
    server = ca.issue('server');
    client = ca.issue('client', { names: 'DNS:billing.internal' });
    crlFile = folder.file('crl.pem', ca.revocationList());
  });

  const anyone = { name: 'anyone', credentials: [{ anonymous: true as const }], allow: [everything] };
  const configWith = (
    tls: { clientCaFile?: string; clientCrlFile?: string } = { clientCaFile: ca.file },
    more: Partial<ConfigInput> = {},
  ): Pick<ConfigInput, 'callers' | 'proxy'> => ({
    proxy: { port: 0, tls: { certFile: server.certFile, keyFile: server.keyFile, ...tls } },
    callers: [
      { name: 'billing', credentials: [{ certificateDns: 'billing.internal' }], allow: [everything] },
      anyone,
    ].slice(0, tls.clientCaFile === undefined ? 0 : 1),
    ...more,
  });

  async function start(config = configWith(), options = {}): Promise<TestProxy> {
    const gateway = await starts.recordingGateway();
    return starts.proxy({ gateway: gateway.url, config, ...options });
  }

  async function send(proxy: TestProxy, own = client, agent?: Agent, headers = {}): Promise<number> {
    const { cert, key } = own;
    const once = agent ?? new Agent({ ca: ca.cert, cert, key, maxCachedSessions: 0 });
    return (await post(`${proxy.url}${paths.balance}`, '', headers, { agent: once })).status;
  }

  function keeping({ cert, key } = client): Agent {
    const agent = new Agent({ keepAlive: true, ca: ca.cert, cert, key });
    starts.atEnd(() => agent.destroy());
    return agent;
  }
  const kept = (agent: Agent) => Object.values(agent.freeSockets).flat()[0];

  function connect(url: string, options: ConnectionOptions = {}): TLSSocket {
    const { hostname: host, port } = new URL(url);
    const own = { ca: ca.cert, cert: client.cert, key: client.key, ...options };
    const tls = connectTls({ host, port: Number(port), ...own });
    tls.on('error', () => {});
    starts.atEnd(() => tls.destroy());
    return tls;
  }

  /** A TLS connection whose client gets nothing of the server's flight until it is released. */
  async function slowHandshake(proxy: TestProxy): Promise<{ tls: TLSSocket; release: () => void }> {
    const server = connectTcp({ host: '127.0.0.1', port: Number(new URL(proxy.url).port) });
    const held = new PassThrough();
    server.pipe(held);
    const relay = createServer((socket) => {
      socket.on('error', () => {}).pipe(server);
      server.on('error', () => {}).once('close', () => held.end());
    });
    const clients = Promise.withResolvers<Socket>();
    relay.once('connection', clients.resolve);
    const { port } = starts.closing(await listen(relay));
    const tls = connect(`https://127.0.0.1:${port}`);
    const socket = await clients.promise;
    await until(() => held.readableLength > 0, 'the server has sent its flight');
    return { tls, release: () => void held.pipe(socket) };
  }

  /** All that the client receives until its connection ends. */
  async function received(tls: TLSSocket): Promise<string> {
    const chunks: Buffer[] = [];
    tls.on('data', (chunk: Buffer) => chunks.push(chunk));
    await once(tls, 'close');
    return Buffer.concat(chunks).toString();
  }

  const revoked = () => {
    writeFileSync(crlFile, ca.revocationList(client));
    return configWith({ clientCaFile: ca.file, clientCrlFile: crlFile });
  };

  it.each([
    ['its CA is removed', () => configWith({ clientCaFile: other.file })],
    ['it is on a revocation list', () => revoked()],
  ])('of a handshake that began before %s do not get a response', async (_, next) => {
    const proxy = await start(configWith({ clientCaFile: ca.file, clientCrlFile: crlFile }));
    const slow = await slowHandshake(proxy);
    await proxy.reload(next());
    slow.tls.once('secureConnect', () => slow.tls.write(formRequest(paths.balance)));
    slow.release();
    expect(await received(slow.tls)).toBe('');
    expect(await send(proxy)).toBe(401);
    expect(await proxy.requestLines(1)).toHaveLength(1);
  });

  it('of a handshake during which nothing changes are accepted after it', async () => {
    const proxy = await start();
    const slow = await slowHandshake(proxy);
    await proxy.reload(configWith());
    slow.tls.once('secureConnect', () =>
      slow.tls.write(formRequest(paths.balance, '', ['Connection: close'])),
    );
    slow.release();
    expect(await received(slow.tls)).toContain('HTTP/1.1 200 OK');
  });

  it('of a request whose head is only complete after its CA was removed do not get a response', async () => {
    const proxy = await start();
    const tls = connect(proxy.url);
    await once(tls, 'secureConnect');
    const request = formRequest(paths.balance);
    await new Promise<void>((resolve) => void tls.write(request.slice(0, -2), () => resolve()));
    await proxy.reload(configWith({ clientCaFile: other.file }));
    tls.write('\r\n');
    expect(await received(tls)).not.toContain('200 OK');
  });

  it('are not replaced after they were verified: a client of TLS 1.2 cannot renegotiate, also after a reload', async () => {
    const proxy = await start();
    async function renegotiated(): Promise<Error | null> {
      const tls = connect(proxy.url, { maxVersion: 'TLSv1.2' });
      await once(tls, 'secureConnect');
      return new Promise((resolve) => {
        tls.once('error', resolve);
        tls.renegotiate({}, resolve);
      });
    }
    const { certFile, keyFile } = ca.issue('server-renewed');
    const renewed = {
      ...configWith(),
      proxy: { port: 0, tls: { certFile, keyFile, clientCaFile: ca.file } },
    };
    for (const config of [configWith(), renewed, configWith({ clientCaFile: other.file })]) {
      await proxy.reload(config);
      expect(await renegotiated()).toMatchObject({ code: 'ERR_SSL_NO_RENEGOTIATION' });
    }
  });

  it('are requested once there is a client CA: no client stays anonymous on a connection from before', async () => {
    const proxy = await start(configWith({}, { callers: [anyone] }));
    const before = keeping();
    expect(await send(proxy, client, before)).toBe(200);
    const connection = kept(before);
    await proxy.reload(
      configWith({ clientCaFile: ca.file }, { callers: [...(configWith().callers ?? []), anyone] }),
    );
    await until(() => connection?.destroyed === true, 'the connection from before has ended');
    expect(await send(proxy, client, before)).toBe(200);
    const callers = (await proxy.requestLines(2)).map(({ caller }) => caller);
    expect(callers).toEqual(['anyone', 'billing']);
  });

  it('on a revocation list are rejected as unknown ones are, also on open connections, and the log says why', async () => {
    const proxy = await start(configWith({ clientCaFile: ca.file, clientCrlFile: crlFile }));
    const agent = keeping();
    expect(await send(proxy, client, agent)).toBe(200);
    const connection = kept(agent);
    await proxy.reload(revoked());
    await until(() => connection?.destroyed === true, 'the connection has ended');
    const bytesFor = async ({ cert, key }: Issued) =>
      sameBytes(
        await post(
          `${proxy.url}${paths.transfer}`,
          transferForm,
          {},
          { agent: new Agent({ ca: ca.cert, cert, key }) },
        ),
      );
    expect(await bytesFor(client)).toBe(
      await bytesFor(ca.issue('unknown', { names: 'DNS:unknown.internal' })),
    );
    expect((await proxy.requestLines(2))[1]).toMatchObject({
      status: 401,
      certificateProblem: 'CERT_REVOKED',
    });
    expect(await send(proxy, ca.issue('second', { names: 'DNS:billing.internal' }))).toBe(200);
  });

  it('of a caller that was removed are rejected on open connections too', async () => {
    const proxy = await start();
    const agent = keeping();
    expect(await send(proxy, client, agent)).toBe(200);
    await proxy.reload(configWith(undefined, { callers: [] }));
    // A connection that ends with the reload makes no payment either.
    expect([0, 401]).toContain(await send(proxy, client, agent).catch(() => 0));
    expect(await send(proxy)).toBe(401);
  });

  it.each([
    ['is on a revocation list', () => ca.revocationList(client), 'CERT_REVOKED'],
    ['has no valid revocation list', () => other.revocationList(), 'UNABLE_TO_GET_CRL'],
  ])('one that %s is no anonymous caller, and no token helps it', async (_, list, problem) => {
    writeFileSync(crlFile, list());
    const billing = { name: 'billing', credentials: [tokenCredential('token')], allow: [everything] };
    const { proxy: listener } = configWith({ clientCaFile: ca.file, clientCrlFile: crlFile });
    const proxy = await start({ proxy: listener, callers: [billing, anyone] });
    const token = { Authorization: 'Bearer token' };
    expect(await send(proxy)).toBe(401);
    expect(await send(proxy, client, undefined, token)).toBe(401);
    const problems = (await proxy.requestLines(2)).map(({ certificateProblem }) => certificateProblem);
    expect(problems).toEqual([problem, problem]);
    // Without a certificate both credentials are good.
    const none = new Agent({ ca: ca.cert });
    expect([await send(proxy, client, none), await send(proxy, client, none, token)]).toEqual([200, 200]);
  });

  it('one of another CA is as good as none, also with revocation lists', async () => {
    const billing = { name: 'billing', credentials: [tokenCredential('token')], allow: [everything] };
    const { proxy: listener } = configWith({ clientCaFile: ca.file, clientCrlFile: crlFile });
    const proxy = await start({ proxy: listener, callers: [billing, anyone] });
    const foreign = other.issue('foreign', { names: 'DNS:billing.internal' });
    expect(await send(proxy, foreign)).toBe(200);
    expect(await send(proxy, foreign, undefined, { Authorization: 'Bearer token' })).toBe(200);
    const callers = (await proxy.requestLines(2)).map(({ caller }) => caller);
    expect(callers).toEqual(['anyone', 'billing']);
  });

  it('on a replaced revocation list are rejected without a reload; junk and an older list are findings, and not used', async () => {
    const config = configWith({ clientCaFile: ca.file, clientCrlFile: crlFile });
    const proxy = await start(config, { certificateCheckInterval: 100 });
    expect(await send(proxy)).toBe(200);
    const good = readFileSync(crlFile);
    writeFileSync(crlFile, '-----BEGIN X509 CRL-----\nMARK\n-----END X509 CRL-----\n');
    await until(() => proxy.logText().includes('certificate files are unusable'));
    expect(proxy.logLines('certificate files are unusable; keeping the previous ones')).toEqual([
      expect.objectContaining({
        fault: `${crlFile} contains no valid PEM certificate revocation list with a nextUpdate`,
      }),
    ]);
    expect(await proxy.statusPages()).toContain('certificate-files-unusable');
    expect(await send(proxy)).toBe(200);
    // Lists have whole seconds.
    await wait(1_100);
    revoked();
    // A handshake during the replacement ends without a response.
    await until(async () => (await send(proxy).catch(() => 0)) === 401, 'the list is used');
    expect(await proxy.statusPages()).not.toContain('certificate-files-unusable');
    writeFileSync(crlFile, good);
    await until(async () => (await proxy.statusPages()).includes('older than the one in use'));
    expect(await send(proxy)).toBe(401);
  });

  it('are all rejected after the end of the revocation list, which is a metric and a finding before', async () => {
    writeFileSync(crlFile, ca.revocationList(undefined, { seconds: 5 }));
    const proxy = await start(configWith({ clientCaFile: ca.file, clientCrlFile: crlFile }));
    const labels = { certificate: 'listener-client-crl' };
    const ends = await proxy.counted('certificate_expiry_timestamp_seconds', labels);
    expect(Math.abs(ends - Date.now() / 1000)).toBeLessThan(10);
    expect(await proxy.statusPages()).toContain('listener-client-crl');
    await until(async () => (await send(proxy)) === 401, 'the list has expired');
    const lines = await proxy.requestLines(1);
    expect(lines.at(-1)).toMatchObject({ certificateProblem: 'CRL_HAS_EXPIRED' });
  });
});
