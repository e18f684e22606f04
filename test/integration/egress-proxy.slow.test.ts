import { createPrivateKey } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { check } from '../../src/cli/check/check.ts';
import { auditIn, recordsIn } from '../support/audit.ts';
import { startBlackHole } from '../support/black-hole.ts';
import { runCommandHere } from '../support/cli.ts';
import { configFor, type EnvironmentInput } from '../support/config.ts';
import { type Behavior, startEgressProxy, type TestEgressProxy } from '../support/egress-proxy.ts';
import { always, closedUrl, type FaultyGateway, httpResponse, silent } from '../support/faulty-gateway.ts';
import { Folder } from '../support/folder.ts';
import { verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { describeWith } from '../support/requires.ts';
import { type Marks, marksIn } from '../support/secret-canaries.ts';
import type { TestProxy } from '../support/service.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { until } from '../support/until.ts';

const success = httpResponse('200 OK', 'status=approved', ['Content-Type: text/plain']);
const responds = (status: string): Behavior => ({
  responds: `HTTP/1.1 ${status}\r\nContent-Length: 3\r\n\r\nno!`,
});

describeWith('openssl')('an egress proxy (needs the program openssl)', () => {
  const starts = harness();
  let caFolder: Folder;
  let folder: Folder;
  let ca: Ca;
  let gateway: FaultyGateway;

  beforeAll(() => {
    caFolder = new Folder();
    ca = new Ca(caFolder.path, 'ca');
  });
  afterAll(() => caFolder.remove());
  beforeEach(async () => {
    folder = starts.folder();
    gateway = await starts.gateway([always(success)], ca.issue('gateway'));
  });

  const startEgress = async (secure = false): Promise<TestEgressProxy> =>
    starts.closing(await startEgressProxy(secure ? ca.issue('egress-proxy') : undefined));

  const startThrough = (
    egressProxy: NonNullable<EnvironmentInput['egressProxy']>,
    sandbox: Partial<EnvironmentInput> = {},
  ): Promise<TestProxy> =>
    starts.proxy({
      gateway: gateway.url,
      sandbox: { caFile: ca.file, egressProxy, ...sandbox },
    });

  /** For what gets no response. All else has the default of 3 s, so that it does not depend on the machine's speed. */
  const hasty = { timeouts: { connect: '500ms' } };

  it.each([false, true])('tunnels every request, with TLS to it: %s', async (secure) => {
    const egress = await startEgress(secure);
    const proxy = await startThrough({ url: egress.url, ...(secure ? { caFile: ca.file } : {}) });
    const responses = [await proxy.balance(), await proxy.transfer(), await proxy.balance()];
    expect(responses.map(({ status, body }) => [status, body])).toEqual(
      Array.from({ length: 3 }, () => [200, 'status=approved']),
    );
    // Known from the start, so that the first failure is an increase.
    expect(await proxy.metric('gateway_connection_failures_total', { cause: 'proxy-failed' })).toBe(0);
    expect(gateway.requests()).toHaveLength(3);
    // The queries share a tunnel, the payment has its own.
    expect(egress.heads).toHaveLength(2);
    expect(new Set(egress.heads)).toEqual(
      new Set([`CONNECT 127.0.0.1:${gateway.port} HTTP/1.1\r\nHost: 127.0.0.1:${gateway.port}\r\n\r\n`]),
    );
    expect(gateway.received()).not.toContain('roxy');
    expect(egress.tunneled().toString('latin1')).not.toContain('invoice-7');
    await until(() => egress.open() === 1);
  });

  it('is waited for through its interim responses, however they are cut', async () => {
    const egress = await startEgress();
    egress.behavior = {
      interim: ['HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early', ' Hints\r\nLink: </a>\r\n', '\r\n'],
    };
    const proxy = await startThrough({ url: egress.url });
    for (const _ of [1, 2]) expect((await proxy.balance()).status).toBe(200);
    expect((await proxy.transfer()).status).toBe(200);
  });

  it.each<[what: string, settings: Partial<EnvironmentInput>, tunnels: number]>([
    ['that is older than connectionMaxAge', { connectionMaxAge: '1s' }, 1],
    ['after each request if keepAlive is false', { keepAlive: false }, 2],
  ])('ends a tunnel %s', async (_, settings, tunnels) => {
    const egress = await startEgress();
    const proxy = await startThrough({ url: egress.url }, settings);
    for (const _ of [1, 2]) expect((await proxy.balance()).status).toBe(200);
    expect(egress.heads).toHaveLength(tunnels);
    await until(() => egress.open() === 0);
    expect((await proxy.balance()).status).toBe(200);
    expect(egress.heads).toHaveLength(tunnels + 1);
  });

  it.each<[behavior: Behavior, cause: string, summary: string]>([
    [responds('403 Forbidden'), 'proxy-denied', 'denies the tunnel'],
    [responds('407 Proxy Authentication Required'), 'proxy-credentials', 'does not accept the credentials'],
    [responds('502 Bad Gateway'), 'proxy-failed', 'cannot reach it'],
    [responds('101 Switching Protocols'), 'proxy-invalid', 'sends an invalid response'],
    ['reset', 'proxy-unreachable', 'cannot be reached'],
    ['silent', 'proxy-timeout', 'makes no tunnel in time'],
  ])('whose response is %j: not sent, with the cause %s', async (behavior, cause, summary) => {
    const egress = await startEgress();
    egress.behavior = behavior;
    const proxy = await startThrough({ url: egress.url }, cause.endsWith('timeout') ? hasty : {});
    for (const failed of [await proxy.transfer(), await proxy.balance()])
      expect(verdict(failed)).toBe('502 gateway-unreachable not-sent not-sent');
    expect(gateway.connections()).toBe(0);
    const [line, lines] = [{ unreachable: cause, outcome: 'not-sent' }, await proxy.requestLines(2)];
    expect(lines).toMatchObject([line, line]);
    expect(JSON.stringify(lines)).not.toContain('gatewayStatus');
    const counted = await proxy.counted('gateway_connection_failures_total', { cause });
    // It has decided: another attempt would get the same response.
    const attempts = cause === 'proxy-denied' || cause === 'proxy-credentials' ? 2 : 6;
    expect([counted, egress.heads.length]).toEqual([attempts, attempts]);
    expect(await proxy.counted('gateway_rejections_total')).toBe(0);
    const { findings } = await proxy.instanceStatus();
    expect(findings).toMatchObject([
      {
        code: 'gateway-unreachable',
        summary: expect.stringContaining(`gateway unreachable, the egress proxy ${summary}`),
        runbookSection: '#gateway-unreachable',
      },
    ]);
    egress.behavior = 'tunnel';
    expect((await proxy.transfer()).status).toBe(200);
  });

  it('that refuses connections, has no address, or accepts none in time: not sent', async () => {
    const hole = starts.closing(await startBlackHole());
    for (const [url, text] of [
      [closedUrl, 'cannot be reached (ECONNREFUSED'],
      ['http://no-such-host.invalid:3128', 'cannot be reached (E'],
      [`http://127.0.0.1:${hole.port}`, 'made no tunnel to the gateway within the timeout'],
    ] as const) {
      const proxy = await startThrough({ url }, hasty);
      const response = await proxy.transfer();
      expect(verdict(response)).toBe('502 gateway-unreachable not-sent not-sent');
      expect(JSON.parse(response.body).detail).toContain(`The egress proxy ${text}`);
    }
  });

  it('whose certificate another CA signed: not sent; and so the certificate of the gateway behind it', async () => {
    const other = new Ca(folder.path, 'other-ca');
    const egress = await startEgress(true);
    const distrusting = await startThrough({ url: egress.url, caFile: other.file });
    expect(JSON.parse((await distrusting.transfer()).body).detail).toContain(
      'The TLS handshake with the egress proxy failed (TLS)',
    );
    expect(egress.heads).toEqual([]);
    const proxy = await startThrough({ url: egress.url, caFile: ca.file }, { caFile: other.file });
    const response = await proxy.transfer();
    expect(verdict(response)).toBe('502 gateway-unreachable not-sent not-sent');
    expect(JSON.parse(response.body).detail).toContain('The TLS handshake with the gateway failed (TLS)');
    expect(gateway.requests()).toEqual([]);
  });

  it('gets credentials from a file, and those of a replaced file', async () => {
    const egress = await startEgress();
    const passwordFile = folder.at('password');
    writeFileSync(passwordFile, 'first-MARK\n');
    const proxy = await startThrough({ url: egress.url, username: 'pay', passwordFile });
    const sent = (): string[] =>
      egress.heads.map((head) => {
        const [, encoded = ''] = /\r\nProxy-Authorization: Basic (\S+)\r\n/.exec(head) ?? [];
        return Buffer.from(encoded, 'base64').toString();
      });
    expect((await proxy.transfer()).status).toBe(200);
    writeFileSync(passwordFile, 'sécond-MARK');
    expect((await proxy.transfer()).status).toBe(200);
    expect(sent()).toEqual(['pay:first-MARK', 'pay:sécond-MARK']);
    for (const secret of ['-MARK', 'sécond-MARK', Buffer.from('pay:first-MARK').toString('base64')])
      expect(`${proxy.seen()}${await proxy.statusPages()}`).not.toContain(secret);
  });

  it('keeps no tunnel to a gateway that does not complete its TLS handshake', async () => {
    const egress = await startEgress();
    const mute = await starts.gateway([silent]);
    const baseUrl = `https://127.0.0.1:${mute.port}`;
    const proxy = await startThrough({ url: egress.url }, { baseUrl, ...hasty });
    const response = await proxy.transfer();
    expect(verdict(response)).toBe('502 gateway-unreachable not-sent not-sent');
    expect(JSON.parse(response.body).detail).toContain('did not accept a connection');
    expect(mute.connections()).toBe(3);
    await until(() => egress.open() === 0);
  });

  it('is trusted by a CA file that is replaced while running, and its expiry is known', async () => {
    const egress = await startEgress(true);
    const caFile = folder.file('egress-ca.crt', new Ca(folder.path, 'other-ca').cert.toString());
    const proxy = await starts.proxy({
      gateway: gateway.url,
      certificateCheckInterval: 100,
      sandbox: { caFile: ca.file, egressProxy: { url: egress.url, caFile } },
    });
    expect((await proxy.transfer()).status).toBe(502);
    writeFileSync(caFile, ca.cert);
    await until(async () => (await proxy.transfer()).status === 200);
    const labels = { certificate: 'gateway-proxy-ca', environment: 'sandbox' };
    expect(await proxy.metric('certificate_expiry_timestamp_seconds', labels)).toBeGreaterThan(
      Date.now() / 1000,
    );
    const { certificates } = await proxy.instanceStatus();
    expect(certificates.map(({ name }) => name)).toContain('gateway-proxy-ca');
  });

  it('that ends a tunnel in the middle of a request: unknown for a payment', async () => {
    const egress = await startEgress();
    gateway = await starts.gateway(
      [
        async ({ request }) => {
          await request();
          egress.drop();
        },
      ],
      ca.issue('other-gateway'),
    );
    const proxy = await startThrough({ url: egress.url });
    expect(verdict(await proxy.transfer())).toBe('502 gateway-reset unknown unknown');
    expect(gateway.requests()).toHaveLength(1);
  });

  it('whatever it does: neither its credentials nor the client key nor a CONNECT line are in any output', async () => {
    const password = 'mark+PASSWORD/egress=4711';
    const client = ca.issue('client');
    const { d = '' } = createPrivateKey(client.key).export({ format: 'jwk' });
    const marks: Marks = {
      password,
      authorization: Buffer.from(`pay:${password}`).toString('base64'),
      clientKeyLine: client.key.toString().split('\n')[1] ?? '',
      clientKey: Buffer.from(d, 'base64url'),
      connect: 'CONNECT 127.0.0.1',
    };
    const egress = await startEgress();
    const { certFile, keyFile } = client;
    const egressProxy = { url: egress.url, username: 'pay', passwordFile: folder.file('password', password) };
    const proxy = await starts.proxy({
      gateway: gateway.url,
      logLevel: 'debug',
      sandbox: { caFile: ca.file, certFile, keyFile, timeouts: { connect: '100ms' }, egressProxy },
      config: { audit: auditIn(folder) },
    });
    const bodies: string[] = [];
    const echo = (head: string): Behavior => responds(`502 ${head}`);
    const behaviors = ['tunnel', 'silent', 'reset', 'end', responds('407 no'), echo] as const;
    for (const behavior of behaviors) {
      egress.behavior = behavior;
      for (const response of [await proxy.transfer(), await proxy.balance()])
        bodies.push(response.body + JSON.stringify(response.headers));
    }
    expect(egress.heads[0]).toContain(marks['authorization']);
    const configFile = folder.file(
      'config.yaml',
      JSON.stringify(
        configFor(
          gateway.url,
          { keys: { source: 'directory', directory: proxy.keysFolder } },
          { caFile: ca.file, certFile, keyFile, egressProxy },
        ),
      ),
    );
    const checked = await runCommandHere(check, '--online', configFile);
    expect(checked.out).toContain(egress.url);
    const pages = await proxy.statusPages();
    await proxy.metrics();
    await proxy.stop();
    const trail = JSON.stringify(recordsIn(folder.at('audit')));
    const output = [proxy.seen(), pages, ...bodies, checked.out, checked.err, trail].join('\n');
    expect(marksIn(output, marks)).toEqual([]);
  });
});
