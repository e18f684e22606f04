import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { balance } from '../support/edge.ts';
import { until } from '../support/forwarding.ts';
import { type RecordingGateway, startRecordingGateway } from '../support/recording-gateway.ts';
import { describeWith } from '../support/requires.ts';
import { startProxy, type TestProxy } from '../support/service.ts';

const whereOpensslIs = describeWith('openssl');
const everything = { environments: ['*'], operations: ['*'], logins: ['*'] };

let folder: string;
let gateway: RecordingGateway;
let proxy: TestProxy;

const at = (name: string): string => join(folder, name);
const read = (name: string): string => readFileSync(at(name), 'utf8');
const openssl = (...args: string[]): void => {
  execFileSync('openssl', args, { cwd: folder, stdio: 'ignore' });
};

function makeCa(name: string): void {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${name}.key`];
  openssl('req', '-x509', ...key, '-out', `${name}.crt`, '-subj', `/CN=${name}`, '-days', '2');
}

function makeCertificate(name: string, ca: string, subjectAltName: string, days = '2'): void {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${name}.key`];
  openssl('req', ...key, '-out', `${name}.csr`, '-subj', `/CN=${name}`);
  writeFileSync(at(`${name}.ext`), `subjectAltName=${subjectAltName}\n`);
  const signer = ['-CA', `${ca}.crt`, '-CAkey', `${ca}.key`, '-CAcreateserial'];
  openssl(
    'x509',
    '-req',
    '-in',
    `${name}.csr`,
    ...signer,
    '-out',
    `${name}.crt`,
    '-days',
    days,
    '-extfile',
    `${name}.ext`,
  );
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'countersign-certificates-'));
  makeCa('ours');
  makeCa('theirs');
  makeCertificate('server', 'ours', 'IP:127.0.0.1');
  makeCertificate('uri', 'ours', 'URI:spiffe://test/ns/pay/sa/billing');
  makeCertificate('dns', 'ours', 'DNS:Reports.Internal');
  makeCertificate('nobody', 'ours', 'DNS:nobody.internal');
  makeCertificate('nameless', 'ours', 'email:spiffe@test.invalid');
  makeCertificate('forged', 'theirs', 'URI:spiffe://test/ns/pay/sa/billing');
  makeCertificate('wildcard', 'ours', 'DNS:*.internal');
  makeCertificate('expired', 'ours', 'URI:spiffe://test/ns/pay/sa/billing', '-1');
  gateway = await startRecordingGateway();
  proxy = await start({ clientCaFile: at('ours.crt') });
}, 60_000);

afterAll(async () => {
  await proxy?.stop();
  await gateway?.close();
  rmSync(folder, { recursive: true });
});

function start(tls: { clientCaFile?: string }): Promise<TestProxy> {
  return startProxy({ gateway: gateway.url, config: configWith(tls) });
}

function configWith(tls: { clientCaFile?: string }) {
  return {
    proxy: {
      port: 0,
      timeouts: { headers: '300ms' },
      tls: { certFile: at('server.crt'), keyFile: at('server.key'), ...tls },
    },
    callers: [
      {
        name: 'billing',
        credentials: [{ certificateUri: 'spiffe://test/ns/pay/sa/billing' }],
        allow: [everything],
      },
      { name: 'reports', credentials: [{ certificateDns: 'reports.internal' }], allow: [everything] },
    ],
  };
}

/** The status, and the caller in the log line. */
async function askWith(name: string | undefined, of: TestProxy = proxy, more: RequestOptions = {}) {
  const shown = name === undefined ? {} : { cert: read(`${name}.crt`), key: read(`${name}.key`) };
  const options = { method: 'POST', agent: false as const, ca: read('ours.crt'), ...shown, ...more };
  return new Promise<{ status: number | undefined; caller: unknown }>((resolve, reject) => {
    const request = httpsRequest(`${of.url}${balance}`, options, (response) => {
      response.resume().once('end', () => {
        const id = response.headers['x-request-id'];
        const line = of.logLines().find(({ requestId }) => requestId === id);
        resolve({ status: response.statusCode, caller: line?.caller });
      });
    });
    request.once('error', reject).end();
  });
}

whereOpensslIs('a caller with a client certificate', () => {
  it('is authenticated by its URI', async () => {
    expect(await askWith('uri')).toEqual({ status: 200, caller: 'billing' });
  });

  it('is authenticated by its DNS name, case-insensitively', async () => {
    expect(await askWith('dns')).toEqual({ status: 200, caller: 'reports' });
  });

  it.each([
    ['none', undefined],
    ['one of a name that is not configured', 'nobody'],
    ['one without URI and DNS name', 'nameless'],
    ['one of a wildcard, which is a name like any other', 'wildcard'],
    ['one of another CA', 'forged'],
    ['one that has expired', 'expired'],
  ])('is unknown with %s', async (_, name) => {
    const before = gateway.requests.length;
    expect(await askWith(name)).toEqual({ status: 401, caller: undefined });
    expect(gateway.requests).toHaveLength(before);
  });

  it('is unknown with a header about a certificate', async () => {
    const headers = {
      'X-Forwarded-Client-Cert': 'URI=spiffe://test/ns/pay/sa/billing',
      'X-SSL-Client-Verify': 'SUCCESS',
    };
    expect(await askWith(undefined, proxy, { headers })).toMatchObject({ status: 401 });
  });

  it('is unknown if it resumes the session of a certificate of another CA', async () => {
    const sessions: Buffer[] = [];
    const ask = (session?: Buffer) =>
      new Promise<number | undefined>((resolve, reject) => {
        const options = { cert: read('forged.crt'), key: read('forged.key'), ca: read('ours.crt') };
        const request = httpsRequest(
          `${proxy.url}${balance}`,
          { method: 'POST', agent: false, ...options, ...(session && { session }) },
          (response) => response.resume().once('end', () => resolve(response.statusCode)),
        );
        request.once('socket', (socket) => socket.on('session', (given: Buffer) => sessions.push(given)));
        request.once('error', reject).end();
      });
    expect(await ask()).toBe(401);
    expect(sessions.length).toBeGreaterThan(0);
    expect(await ask(sessions.at(-1))).toBe(401);
  });

  it('is unknown after another CA is configured, even if it resumes its session', async () => {
    const changing = await start({ clientCaFile: at('ours.crt') });
    let session: Buffer | undefined;
    const agent = new Agent({ maxCachedSessions: 0 });
    const ask = () =>
      new Promise<number | undefined>((resolve, reject) => {
        const shown = { cert: read('uri.crt'), key: read('uri.key'), ca: read('ours.crt') };
        const options = { method: 'POST', agent, ...shown, ...(session && { session }) };
        const request = httpsRequest(`${changing.url}${balance}`, options, (response) =>
          response.resume().once('end', () => resolve(response.statusCode)),
        );
        request.once('socket', (socket) =>
          socket.on('session', (given: Buffer) => {
            session = given;
          }),
        );
        request.once('error', reject).end();
      });
    try {
      expect(await ask()).toBe(200);
      expect(session).toBeDefined();
      expect(await ask()).toBe(200);
      await changing.reload(configWith({ clientCaFile: at('theirs.crt') }));
      expect(await ask()).toBe(401);
    } finally {
      agent.destroy();
      await changing.stop();
    }
  });

  it('is unknown after its certificate has expired, even on an open connection', async () => {
    let now = Date.now();
    const lasting = await startProxy({
      gateway: gateway.url,
      config: configWith({ clientCaFile: at('ours.crt') }),
      clock: () => now,
    });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    try {
      expect(await askWith('uri', lasting, { agent })).toEqual({ status: 200, caller: 'billing' });
      now += 3 * 86_400_000;
      const [kept] = Object.values(agent.freeSockets).flat();
      const before = kept?.bytesRead ?? 0;
      expect(await askWith('uri', lasting, { agent })).toEqual({ status: 401, caller: undefined });
      expect(kept?.bytesRead).toBeGreaterThan(before);
    } finally {
      agent.destroy();
      await lasting.stop();
    }
  });

  it('keeps its connection after a reload with the same CA, and loses it with another CA', async () => {
    const changing = await start({ clientCaFile: at('ours.crt') });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const kept = () => Object.values(agent.freeSockets).flat()[0];
    try {
      expect(await askWith('uri', changing, { agent })).toEqual({ status: 200, caller: 'billing' });
      const connection = kept();
      await changing.reload(configWith({ clientCaFile: at('ours.crt') }));
      expect(await askWith('uri', changing, { agent })).toMatchObject({ status: 200 });
      expect(kept()).toBe(connection);
      await changing.reload(configWith({ clientCaFile: at('theirs.crt') }));
      await until(() => connection?.destroyed === true);
      expect(await askWith('uri', changing, { agent })).toEqual({ status: 401, caller: undefined });
    } finally {
      agent.destroy();
      await changing.stop();
    }
  });

  it('gets the pending response if another CA is configured, as the last one', async () => {
    const changing = await start({ clientCaFile: at('ours.crt') });
    const agent = new Agent({ keepAlive: true });
    const going = Promise.withResolvers<void>();
    const { reply } = gateway;
    gateway.reply = (response) => void going.promise.then(() => response.end('OK'));
    try {
      const before = gateway.requests.length;
      const answer = askWith('uri', changing, { agent });
      await until(() => gateway.requests.length > before);
      await changing.reload(configWith({ clientCaFile: at('theirs.crt') }));
      going.resolve();
      expect(await answer).toEqual({ status: 200, caller: 'billing' });
      expect(Object.values(agent.freeSockets).flat()).toEqual([]);
    } finally {
      gateway.reply = reply;
      agent.destroy();
      await changing.stop();
    }
  });

  it('is disconnected if its TLS handshake takes longer than timeouts.headers', async () => {
    const { hostname, port } = new URL(proxy.url);
    const silent = connect(Number(port), hostname);
    silent.resume().on('error', () => {});
    await once(silent, 'connect');
    const began = performance.now();
    await once(silent, 'close');
    // The timeout is 300 ms.
    expect(performance.now() - began).toBeGreaterThan(200);
    expect(performance.now() - began).toBeLessThan(3_000);
    expect(silent.bytesRead).toBe(0);
  });

  it('is unknown without a configured client CA, even with a certificate of a public CA', async () => {
    const publicOnes = getCACertificates('default');
    setDefaultCACertificates([...publicOnes, read('ours.crt')]);
    const open = await start({});
    try {
      expect(await askWith('uri', open)).toEqual({ status: 401, caller: undefined });
    } finally {
      setDefaultCACertificates(publicOnes);
      await open.stop();
    }
  });
});
