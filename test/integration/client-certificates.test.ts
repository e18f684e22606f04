import { X509Certificate } from 'node:crypto';
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { everything } from '../support/config.ts';
import { Folder } from '../support/folder.ts';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import type { RecordingGateway } from '../support/recording-gateway.ts';
import { describeWith } from '../support/requires.ts';
import { type ProxyOptions, type TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';
import { until } from '../support/until.ts';

const { balance } = paths;

const whereOpensslIs = describeWith('openssl');

const starts = harness(afterAll);
let folder: Folder;
let ours: Ca;
let theirs: Ca;
let gateway: RecordingGateway;
let proxy: TestProxy;

const [hour, day] = [3_600_000, 86_400_000];
const billing = 'URI:spiffe://test/ns/pay/sa/billing';
const certificates = new Map<string, Issued>();

beforeAll(async () => {
  folder = starts.folder();
  ours = new Ca(folder.path, 'ours');
  theirs = new Ca(folder.path, 'theirs');
  const issue = (ca: Ca, name: string, names: string, validity: object = {}) =>
    void certificates.set(name, ca.issue(name, { names, ...validity }));
  issue(ours, 'server', 'IP:127.0.0.1');
  issue(ours, 'uri', billing);
  issue(ours, 'dns', 'DNS:Reports.Internal');
  issue(ours, 'stranger', 'DNS:stranger.internal');
  issue(ours, 'nameless', 'email:spiffe@test.invalid');
  issue(theirs, 'forged', billing);
  issue(ours, 'wildcard', 'DNS:*.internal');
  issue(ours, 'expired', billing, { from: Date.now() - day, until: Date.now() - hour });
  gateway = await starts.recordingGateway();
  proxy = await start(ours);
}, 60_000);

/** The certificate that a client presents, and the CA that it trusts. */
const shown = (name: string) => {
  const { cert, key } = certificates.get(name) ?? {};
  return { cert, key, ca: ours.cert };
};

const start = (clientCa?: Ca, options: ProxyOptions = {}): Promise<TestProxy> =>
  starts.proxy({ gateway: gateway.url, config: configWith(clientCa), ...options });

function configWith(clientCa?: Ca) {
  const { certFile, keyFile } = certificates.get('server') ?? {};
  return {
    proxy: {
      port: 0,
      timeouts: { headers: '300ms' },
      tls: {
        certFile: certFile ?? '',
        keyFile: keyFile ?? '',
        ...(clientCa && { clientCaFile: clientCa.file }),
      },
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
async function sendWith(name: string | undefined, of: TestProxy = proxy, more: RequestOptions = {}) {
  const own = name === undefined ? { ca: ours.cert } : shown(name);
  const options = { method: 'POST', agent: false as const, ...own, ...more };
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
    expect(await sendWith('uri')).toEqual({ status: 200, caller: 'billing' });
  });

  it('has the name and the fingerprint of its certificate in the debug log', async () => {
    const debugging = await start(ours, { logLevel: 'debug' });
    await sendWith('uri', debugging);
    expect(debugging.logLines('caller authenticated')).toEqual([
      expect.objectContaining({
        caller: 'billing',
        credential: 'certificate',
        certificateName: 'spiffe://test/ns/pay/sa/billing',
        certificateFingerprint: new X509Certificate(certificates.get('uri')?.cert ?? '').fingerprint256,
      }),
    ]);
  });

  it('is authenticated by its DNS name, case-insensitively', async () => {
    expect(await sendWith('dns')).toEqual({ status: 200, caller: 'reports' });
  });

  it.each([
    ['none', undefined],
    ['one of a name that is not configured', 'stranger'],
    ['one without URI and DNS name', 'nameless'],
    ['one of a wildcard, which is a name like any other', 'wildcard'],
    ['one of another CA', 'forged'],
    ['one that has expired', 'expired'],
  ])('is unknown with %s', async (_, name) => {
    const before = gateway.requests.length;
    expect(await sendWith(name)).toEqual({ status: 401, caller: undefined });
    expect(gateway.requests).toHaveLength(before);
  });

  it('is unknown with a header about a certificate', async () => {
    const headers = {
      'X-Forwarded-Client-Cert': 'URI=spiffe://test/ns/pay/sa/billing',
      'X-SSL-Client-Verify': 'SUCCESS',
    };
    expect(await sendWith(undefined, proxy, { headers })).toMatchObject({ status: 401 });
  });

  it('is unknown if it resumes the session of a certificate of another CA', async () => {
    const sessions: Buffer[] = [];
    const send = (session?: Buffer) =>
      new Promise<number | undefined>((resolve, reject) => {
        const options = shown('forged');
        const request = httpsRequest(
          `${proxy.url}${balance}`,
          { method: 'POST', agent: false, ...options, ...(session && { session }) },
          (response) => response.resume().once('end', () => resolve(response.statusCode)),
        );
        request.once('socket', (socket) => socket.on('session', (given: Buffer) => sessions.push(given)));
        request.once('error', reject).end();
      });
    expect(await send()).toBe(401);
    expect(sessions.length).toBeGreaterThan(0);
    expect(await send(sessions.at(-1))).toBe(401);
  });

  it('is unknown after another CA is configured, even if it resumes its session', async () => {
    const changing = await start(ours);
    let session: Buffer | undefined;
    const agent = new Agent({ maxCachedSessions: 0 });
    const send = () =>
      new Promise<number | undefined>((resolve, reject) => {
        const options = { method: 'POST', agent, ...shown('uri'), ...(session && { session }) };
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
      expect(await send()).toBe(200);
      expect(session).toBeDefined();
      expect(await send()).toBe(200);
      await changing.reload(configWith(theirs));
      expect(await send()).toBe(401);
    } finally {
      agent.destroy();
    }
  });

  it('is unknown after its certificate has expired, even on an open connection', async () => {
    let now = Date.now();
    const lasting = await start(ours, { clock: () => now });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    try {
      expect(await sendWith('uri', lasting, { agent })).toEqual({ status: 200, caller: 'billing' });
      now += 3 * 86_400_000;
      const [kept] = Object.values(agent.freeSockets).flat();
      const before = kept?.bytesRead ?? 0;
      expect(await sendWith('uri', lasting, { agent })).toEqual({ status: 401, caller: undefined });
      expect(kept?.bytesRead).toBeGreaterThan(before);
    } finally {
      agent.destroy();
    }
  });

  it('keeps its connection after a reload with the same CA, and loses it with another CA', async () => {
    const changing = await start(ours);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const kept = () => Object.values(agent.freeSockets).flat()[0];
    try {
      expect(await sendWith('uri', changing, { agent })).toEqual({ status: 200, caller: 'billing' });
      const connection = kept();
      await changing.reload(configWith(ours));
      expect(await sendWith('uri', changing, { agent })).toMatchObject({ status: 200 });
      expect(kept()).toBe(connection);
      await changing.reload(configWith(theirs));
      await until(() => connection?.destroyed === true);
      expect(await sendWith('uri', changing, { agent })).toEqual({ status: 401, caller: undefined });
    } finally {
      agent.destroy();
    }
  });

  it('gets the pending response if another CA is configured, as the last one', async () => {
    const changing = await start(ours);
    const agent = new Agent({ keepAlive: true });
    const going = Promise.withResolvers<void>();
    const { respond } = gateway;
    gateway.respond = (response) => void going.promise.then(() => response.end('OK'));
    try {
      const before = gateway.requests.length;
      const response = sendWith('uri', changing, { agent });
      await until(() => gateway.requests.length > before);
      await changing.reload(configWith(theirs));
      going.resolve();
      expect(await response).toEqual({ status: 200, caller: 'billing' });
      expect(Object.values(agent.freeSockets).flat()).toEqual([]);
    } finally {
      gateway.respond = respond;
      agent.destroy();
    }
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

  it('is unknown without a configured client CA, even with a certificate of a public CA', async () => {
    const publicOnes = getCACertificates('default');
    setDefaultCACertificates([...publicOnes, ours.cert.toString()]);
    const open = await start();
    try {
      expect(await sendWith('uri', open)).toEqual({ status: 401, caller: undefined });
    } finally {
      setDefaultCACertificates(publicOnes);
    }
  });
});
