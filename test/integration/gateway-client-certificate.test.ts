import { spawn } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { beforeEach, expect, it } from '@jest/globals';
import { always, freePort, httpResponse } from '../support/faulty-gateway.ts';
import type { Folder } from '../support/folder.ts';
import { verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { describeWith } from '../support/requires.ts';
import type { TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';
import { until } from '../support/until.ts';

const peerOf = (socket: Socket): unknown =>
  socket instanceof TLSSocket ? socket.getPeerCertificate().subject.CN : undefined;
const success = httpResponse('200 OK', 'status=approved', ['Content-Type: text/plain']);

describeWith('openssl')('a client certificate for the gateway (needs the program openssl)', () => {
  const starts = harness();
  let folder: Folder;
  let ca: Ca;
  let other: Ca;

  beforeEach(() => {
    folder = starts.folder();
    ca = new Ca(folder.path, 'ca');
    other = new Ca(folder.path, 'other-ca');
  });

  /** Copies a certificate and its key to the files of the configuration. */
  function install({ certFile, keyFile }: Issued): { certFile: string; keyFile: string } {
    const files = { certFile: folder.at('client.crt'), keyFile: folder.at('client.key') };
    copyFileSync(certFile, files.certFile);
    copyFileSync(keyFile, files.keyFile);
    return files;
  }

  const start = (gateway: string, client: Issued): Promise<TestProxy> =>
    starts.proxy({
      gateway,
      certificateCheckInterval: 100,
      sandbox: { caFile: ca.file, ...install(client) },
    });

  it.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'is presented, and a replaced one is used, with %s',
    async (version) => {
      const shown: string[] = [];
      const respond = always(success);
      const gateway = await starts.gateway(
        [
          (conversation) => {
            const { socket } = conversation;
            shown.push(String(peerOf(socket)));
            return respond(conversation);
          },
        ],
        {
          ...ca.issue('gateway'),
          ca: ca.cert,
          requestCert: true,
          rejectUnauthorized: true,
          minVersion: version,
          maxVersion: version,
        },
      );
      const proxy = await start(gateway.url, ca.issue('first'));
      expect([(await proxy.balance()).status, (await proxy.transfer()).status]).toEqual([200, 200]);
      expect(
        await proxy.metric('certificate_expiry_timestamp_seconds', { certificate: 'gateway-client' }),
      ).toBeGreaterThan(Date.now() / 1000);
      install(ca.issue('second'));
      await until(() => proxy.logLines('certificate files reloaded').length === 1);
      expect([(await proxy.balance()).status, (await proxy.transfer()).status]).toEqual([200, 200]);
      expect(shown).toEqual(['first', 'first', 'second', 'second']);
    },
  );

  /** A gateway that requires a certificate of the CA, and ends the handshake of any other with an alert. */
  async function startStrict(version: string): Promise<{ url: string; received: () => string }> {
    const port = await freePort();
    const { certFile, keyFile } = ca.issue('gateway');
    const files = ['-cert', certFile, '-key', keyFile, '-CAfile', ca.file];
    const rules = ['-Verify', '1', '-verify_return_error', version, '-quiet'];
    const child = spawn('openssl', ['s_server', '-accept', `127.0.0.1:${port}`, ...files, ...rules], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    starts.atEnd(() => child.kill());
    let received = '';
    child.stdout.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
    });
    const url = `https://127.0.0.1:${port}`;
    return { url, received: () => received };
  }

  it('that the gateway rejects with TLS 1.2: not sent, with the alert', async () => {
    const gateway = await startStrict('-tls1_2');
    const proxy = await start(gateway.url, other.issue('stranger'));
    await until(async () => (await proxy.transfer()).body.includes('TLS alert'));
    const response = await proxy.transfer();
    expect(verdict(response)).toBe('502 gateway-unreachable not-sent not-sent');
    expect(JSON.parse(response.body).detail).toContain(
      'The TLS handshake with the gateway failed (TLS) (TLS alert: unknown ca)',
    );
    const line = proxy.logLines('request completed').at(-1);
    expect(line).toMatchObject({ unreachable: 'tls', tlsAlert: 'unknown ca', outcome: 'not-sent' });
    expect(gateway.received()).toBe('');
  });

  it('that the gateway rejects with TLS 1.3: unknown for a payment, with the alert', async () => {
    const gateway = await startStrict('-tls1_3');
    const proxy = await start(gateway.url, other.issue('stranger'));
    await until(async () => (await proxy.transfer()).body.includes('TLS alert'));
    const response = await proxy.transfer();
    expect(verdict(response)).toBe('502 gateway-reset unknown unknown');
    expect(JSON.parse(response.body).detail).toContain('(TLS alert: unknown ca)');
    const line = proxy.logLines('request completed').at(-1);
    expect(line).toMatchObject({ reason: 'gateway-reset', tlsAlert: 'unknown ca', outcome: 'unknown' });
    const { findings } = await proxy.instanceStatus();
    expect(JSON.stringify(findings)).toContain('ends connections with a TLS alert: unknown ca');
    expect(gateway.received()).toBe('');
  });
});
