import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { expect, it } from '@jest/globals';
import { paths, transferForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { limitMemory, peakMemory } from '../support/memory-limit.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { until } from '../support/until.ts';

const starts = harness();

/** The limit of the chart. */
const limit = 384 * 1_048_576;
const clients = 4_600;

/** The beginning of a request whose head does not end, in different shapes. Each is as large as Node accepts. */
const heads = [
  'a:\r\n'.repeat(16_000),
  'a:b\r\n'.repeat(8_000),
  'abc:\r\n'.repeat(5_000),
  `a:${'b'.repeat(16_000)}`,
  `${Array.from({ length: 98 }, (_, n) => `${n}:${'b'.repeat(160)}`).join('\r\n')}\r\n`,
].map((lines) => `POST / HTTP/1.1\r\n${lines}`);

it.each([
  ['TCP', false],
  ['TLS', true],
])(
  'with the limits of the defaults and the memory of the chart, heads without an end do not end the process, nor payments in flight: %s',
  async (kind, isTls) => {
    const ca = new Ca(starts.folder().path, 'ca');
    const { certFile, keyFile } = ca.issue('server');
    const gateway = await starts.recordingGateway();
    const timeouts = { headers: '2m', body: '2m', shutdownDelay: '0s', shutdown: '5s' };
    const process = await starts.process({
      gateway: gateway.url,
      config: { proxy: { port: 0, timeouts, ...(isTls && { tls: { certFile, keyFile } }) } },
      sandbox: { timeouts: { request: '2m' } },
    });
    const pid = process.child.pid ?? 0;
    const group = limitMemory(limit);
    if (group === undefined) console.warn('No control group may be made here: only the peak is measured.');
    group?.add(pid);
    starts.atEnd(() => process.ended.then(() => group?.remove()));
    const { hostname: host, port } = new URL(process.url);
    const open = (): Promise<Socket> =>
      new Promise((resolve) => {
        const to = { host, port: Number(port), rejectUnauthorized: false };
        const ready = (): void => resolve(socket);
        const socket: Socket = isTls ? connectTls(to, ready) : connect(to, ready);
        socket.on('error', () => {}).once('close', () => resolve(socket));
        starts.atEnd(() => socket.destroy());
      });

    const release = gateway.hold('paid');
    const payments = await Promise.all(
      Array.from({ length: 20 }, () => RawConnection.open(process.url, isTls ? ca.cert : undefined)),
    );
    for (const payment of payments) payment.send(formRequest(paths.transfer, transferForm));
    await until(() => gateway.requests.length === 20);

    for (let count = 0; count < clients; count += 100) {
      const sockets = await Promise.all(Array.from({ length: 100 }, open));
      // In pieces: a head that is already too long is rejected at once.
      for (const [nth, socket] of sockets.entries())
        socket.write((heads[nth % heads.length] ?? '').slice(0, -1));
    }
    release();
    const responses = await Promise.all(payments.map((payment) => payment.response()));
    expect(responses.map(({ status, body }) => `${status} ${body.toString()}`)).toEqual(
      Array(20).fill('200 paid'),
    );
    expect(process.child.exitCode).toBeNull();
    expect(process.stderr()).toBe('');
    expect(peakMemory(pid) ?? 0).toBeLessThan(limit);
    console.info(`${kind}: peak ${Math.round((peakMemory(pid) ?? 0) / 1_048_576)} MiB`);
  },
  180_000,
);
