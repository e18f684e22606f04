import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Agent } from 'node:https';
import { connect as connectTcp } from 'node:net';
import { connect } from 'node:tls';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { everything } from '../support/config.ts';
import type { Folder } from '../support/folder.ts';
import { paths, post, transferForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { madeUpChain } from '../support/made-up-chain.ts';
import { formRequest } from '../support/raw-http.ts';
import { describeWith } from '../support/requires.ts';
import type { TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';
import { until } from '../support/until.ts';
import { vectorText } from '../support/vectors.ts';

const starts = harness(afterAll);

describeWith('openssl')('a TLS handshake with client certificates', () => {
  let folder: Folder;
  let ca: Ca;
  let client: Issued;
  let proxy: TestProxy;

  beforeAll(async () => {
    folder = starts.folder();
    ca = new Ca(folder.path, 'ca');
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

  /** In another process, so that its work does not count. */
  function handshakeOf(chain: { cert: string; key: string }, version: string): ChildProcess {
    const { host } = new URL(proxy.url);
    const certFile = folder.file('made-up.pem', chain.cert);
    const keyFile = folder.file('made-up.key', chain.key);
    const args = ['s_client', '-connect', host, '-cert', certFile, '-cert_chain', certFile, '-key', keyFile];
    return spawn('openssl', [...args, version], { stdio: ['ignore', 'ignore', 'ignore'] });
  }

  it.each(['-tls1_3', '-tls1_2'])(
    'takes at most 100 ms of this thread for a chain of 60 made-up certificates: %s',
    async (version) => {
      const chain = madeUpChain(60);
      const costs: number[] = [];
      for (let round = 0; round < 3; round += 1) {
        const before = process.cpuUsage();
        await once(handshakeOf(chain, version), 'close');
        const { user, system } = process.cpuUsage(before);
        costs.push((user + system) / 1000);
      }
      expect(Math.min(...costs)).toBeLessThan(100);
    },
  );

  it('that is cut off is logged, with the address', async () => {
    await once(handshakeOf(madeUpChain(60), '-tls1_3'), 'close');
    const lines = () =>
      proxy.logLines('TLS handshake failed').filter(({ cause }) => cause === 'handshake-too-large');
    await until(() => lines().length > 0, 'the failure is logged');
    expect(lines()[0]).toMatchObject({ level: 'warn', peer: '127.0.0.1' });
  });

  it.each([
    ['a modulus above 8,192 bits', 'keys/rsa-8194-five-primes.pem', 'TLSv1.3'],
    ['an exponent above 32 bits', 'keys/rsa-2048-large-exponent.pem', 'TLSv1.3'],
    ['an exponent above 32 bits', 'keys/rsa-2048-large-exponent.pem', 'TLSv1.2'],
  ] as const)(
    'with a certificate of our CA for a key with %s is rejected and logged',
    async (_, vector, maxVersion) => {
      const key = vectorText(vector);
      const [keyFile, certFile] = [folder.file('large.key', key), folder.at('large.crt')];
      const signer = ['-CA', folder.at('ca.crt'), '-CAkey', folder.at('ca.key')];
      const names = ['-subj', '/CN=large', '-addext', 'subjectAltName=DNS:billing.internal'];
      const request = ['req', '-x509', '-days', '1', '-new', '-key', keyFile, ...names, ...signer];
      execFileSync('openssl', [...request, '-out', certFile], { stdio: 'pipe' });
      const lines = () =>
        proxy.logLines('TLS handshake failed').filter(({ cause }) => cause === 'client-key-too-large');
      const before = lines().length;
      const cert = readFileSync(certFile, 'utf8');
      const agent = new Agent({ ca: ca.cert, cert, key, maxVersion });
      const sent = post(`${proxy.url}${paths.balance}`, '', {}, { agent });
      await expect(sent).rejects.toMatchObject({ code: 'ECONNRESET' });
      await until(() => lines().length > before, 'the failure is logged');
      expect(lines().at(-1)).toMatchObject({ level: 'warn', peer: '127.0.0.1' });
    },
    60_000,
  );

  it('with a chain of three RSA certificates of 4,096 bits is completed', async () => {
    // One key for all three: what a chain costs to verify is the same, and making a key takes a second.
    const key = vectorText('keys/rsa-4096-pkcs8.pem');
    const keyFile = folder.file('chain.key', key);
    let issuer = [folder.at('ca.crt'), folder.at('ca.key')];
    for (const name of ['upper', 'lower', 'leaf']) {
      const file = folder.at(`${name}.crt`);
      const signer = ['-CA', issuer[0] ?? '', '-CAkey', issuer[1] ?? ''];
      const names = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=DNS:billing.internal'];
      execFileSync(
        'openssl',
        ['req', '-x509', '-days', '1', '-new', '-key', keyFile, ...names, ...signer, '-out', file],
        { stdio: 'pipe' },
      );
      issuer = [file, keyFile];
    }
    const cert = ['leaf', 'lower', 'upper'].map((name) => readFileSync(folder.at(`${name}.crt`), 'utf8'));
    const agent = new Agent({ ca: ca.cert, cert: cert.join(''), key });
    expect((await post(`${proxy.url}${paths.balance}`, '', {}, { agent })).status).toBe(200);
  }, 120_000);

  it('waits for less than a second while 900 clients send theirs byte by byte', async () => {
    const { hostname: host, port } = new URL(proxy.url);
    // The head of a TLS record, of which more is always to come.
    const record = Buffer.concat([Buffer.from('16030117700100176c0303', 'hex'), Buffer.alloc(4_000)]);
    const clients = Array.from({ length: 900 }, () => {
      const socket = connectTcp({ host, port: Number(port), noDelay: true });
      socket.on('error', () => {});
      starts.atEnd(() => socket.destroy());
      return socket;
    });
    let sent = 0;
    const drip = setInterval(() => {
      for (const socket of clients) socket.write(record.subarray(sent, sent + 1));
      sent += 1;
    }, 500);
    starts.atEnd(() => clearInterval(drip));
    const durations: number[] = [];
    await until(() => sent > 2);
    for (let round = 0; round < 4; round += 1) {
      const agent = new Agent({ ca: ca.cert, cert: client.cert, key: client.key, maxCachedSessions: 0 });
      const began = performance.now();
      expect((await post(`${proxy.url}${paths.balance}`, '', {}, { agent })).status).toBe(200);
      durations.push(performance.now() - began);
    }
    clearInterval(drip);
    for (const socket of clients) socket.destroy();
    expect(Math.min(...durations)).toBeLessThan(1_000);
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
