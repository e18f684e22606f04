import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { Agent } from 'node:https';
import { connect as connectTcp, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { beforeEach, expect, it } from '@jest/globals';
import { type ConfigInput, everything, tokenCredential } from '../support/config.ts';
import { paths, post } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { portOf } from '../support/listening.ts';
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

  async function send(
    proxy: TestProxy,
    { cert, key } = client,
    agent?: Agent,
    headers = {},
  ): Promise<number> {
    const own = agent ?? new Agent({ ca: ca.cert, cert, key, maxCachedSessions: 0 });
    return (await post(`${proxy.url}${paths.balance}`, '', headers, { agent: own })).status;
  }

  /** A TLS connection whose client sends nothing after its first flight until it is released. */
  async function slowHandshake(
    proxy: TestProxy,
  ): Promise<{ tls: TLSSocket; release: () => void; raw: Socket }> {
    const { hostname: host, port } = new URL(proxy.url);
    const server = connectTcp({ host, port: Number(port) });
    const held: Buffer[] = [];
    let released = false;
    // Between the two is what holds the response of the server back.
    const relay = starts.closing(await relayTo(server, () => released, held));
    const tls = connectTls({ host, port: relay.port, ca: ca.cert, cert: client.cert, key: client.key });
    tls.on('error', () => {});
    await until(() => held.length > 0, 'the server has sent its flight');
    return {
      tls,
      raw: server,
      release: () => {
        released = true;
        relay.flush();
      },
    };
  }

  async function relayTo(server: Socket, isReleased: () => boolean, held: Buffer[]) {
    let client: Socket | undefined;
    const listener = createServer((socket) => {
      client = socket;
      socket.pipe(server);
      socket.on('error', () => {});
      server.on('error', () => {});
      server.on('data', (chunk: Buffer) => (isReleased() ? socket.write(chunk) : held.push(chunk)));
      server.once('close', () => socket.destroy());
    });
    await new Promise<void>((resolve) => {
      listener.listen(0, '127.0.0.1', resolve);
    });
    return {
      port: portOf(listener),
      flush: () => {
        for (const chunk of held) client?.write(chunk);
      },
      close: () => {
        client?.destroy();
        server.destroy();
        listener.close();
      },
    };
  }

  /** All that the client receives until its connection ends. */
  async function received(tls: TLSSocket): Promise<string> {
    const chunks: Buffer[] = [];
    tls.on('data', (chunk: Buffer) => chunks.push(chunk));
    await new Promise<void>((resolve) => {
      tls.once('close', () => resolve());
    });
    return Buffer.concat(chunks).toString();
  }

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
    const { hostname: host, port } = new URL(proxy.url);
    const tls = connectTls({ host, port: Number(port), ca: ca.cert, cert: client.cert, key: client.key });
    tls.on('error', () => {});
    const request = formRequest(paths.balance);
    await new Promise<void>((resolve) => {
      tls.once('secureConnect', () => tls.write(request.slice(0, -2), () => resolve()));
    });
    await proxy.reload(configWith({ clientCaFile: other.file }));
    tls.write('\r\n');
    expect(await received(tls)).not.toContain('200 OK');
  });

  it('are not replaced after they were verified: a client of TLS 1.2 cannot renegotiate, also after a reload', async () => {
    const proxy = await start();
    const { hostname: host, port } = new URL(proxy.url);
    const own = { ca: ca.cert, cert: client.cert, key: client.key, maxVersion: 'TLSv1.2' as const };
    async function renegotiated(): Promise<Error | null> {
      const tls = connectTls({ host, port: Number(port), ...own });
      starts.atEnd(() => tls.destroy());
      await once(tls, 'secureConnect');
      return new Promise((resolve) => {
        tls.once('error', resolve);
        tls.renegotiate({}, resolve);
      });
    }
    expect(await renegotiated()).toMatchObject({ code: 'ERR_SSL_NO_RENEGOTIATION' });
    const renewed = ca.issue('server-renewed');
    const files = { certFile: renewed.certFile, keyFile: renewed.keyFile, clientCaFile: ca.file };
    await proxy.reload(configWith({}, { ...configWith(), proxy: { port: 0, tls: files } }));
    expect(await renegotiated()).toMatchObject({ code: 'ERR_SSL_NO_RENEGOTIATION' });
    await proxy.reload(configWith({ clientCaFile: other.file }));
    expect(await renegotiated()).toMatchObject({ code: 'ERR_SSL_NO_RENEGOTIATION' });
  });

  it('are requested only with a client CA, and no client is anonymous on a connection from before it was added', async () => {
    const proxy = await start(configWith({}, { callers: [anyone] }));
    const before = new Agent({ keepAlive: true, ca: ca.cert, cert: client.cert, key: client.key });
    starts.atEnd(() => before.destroy());
    expect(await send(proxy, client, before)).toBe(200);
    const [kept] = Object.values(before.freeSockets).flat();
    await proxy.reload(
      configWith({ clientCaFile: ca.file }, { callers: [...(configWith().callers ?? []), anyone] }),
    );
    await until(() => kept?.destroyed === true, 'the connection from before has ended');
    expect(await send(proxy, client, before)).toBe(200);
    const callers = (await proxy.requestLines(2)).map(({ caller }) => caller);
    expect(callers).toEqual(['anyone', 'billing']);
  });

  it('are not requested without a client CA', async () => {
    const proxy = await start(configWith({}, { callers: [anyone] }));
    const { hostname: host, port } = new URL(proxy.url);
    const args = [
      's_client',
      '-connect',
      `${host}:${port}`,
      '-cert',
      client.certFile,
      '-key',
      client.keyFile,
    ];
    const run = spawn('openssl', args, { stdio: ['pipe', 'pipe', 'ignore'] });
    run.stdin.end();
    const output = await text(run.stdout);
    expect(output).toContain('No client certificate CA names sent');
    expect(output).not.toContain('Requested Signature Algorithms');
  });

  const revoked = () => {
    writeFileSync(crlFile, ca.revocationList(client));
    return configWith({ clientCaFile: ca.file, clientCrlFile: crlFile });
  };

  it('on a revocation list are rejected, also on open connections, and the log says why', async () => {
    const proxy = await start(configWith({ clientCaFile: ca.file, clientCrlFile: crlFile }));
    const agent = new Agent({ keepAlive: true, ca: ca.cert, cert: client.cert, key: client.key });
    starts.atEnd(() => agent.destroy());
    expect(await send(proxy, client, agent)).toBe(200);
    const [kept] = Object.values(agent.freeSockets).flat();
    await proxy.reload(revoked());
    await until(() => kept?.destroyed === true, 'the connection has ended');
    expect(await send(proxy, client, agent)).toBe(401);
    expect((await proxy.requestLines(2))[1]).toMatchObject({ certificateProblem: 'CERT_REVOKED' });
    expect(await send(proxy, ca.issue('second', { names: 'DNS:billing.internal' }))).toBe(200);
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

  it('are all rejected if their CA has no revocation list', async () => {
    writeFileSync(crlFile, other.revocationList());
    const proxy = await start(configWith({ clientCaFile: ca.file, clientCrlFile: crlFile }));
    expect(await send(proxy)).toBe(401);
    expect((await proxy.requestLines(1))[0]).toMatchObject({ certificateProblem: 'UNABLE_TO_GET_CRL' });
  });
});
