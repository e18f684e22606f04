import { once } from 'node:events';
import type { RequestListener, Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { afterEach, describe, expect, it } from '@jest/globals';
import { acceptTls } from '../../../src/proxy/inbound/tls-handshakes.ts';
import { createAdminServer } from '../../../src/service/admin.ts';
import { Folder } from '../../support/folder.ts';
import { portOf } from '../../support/listening.ts';
import { RawConnection } from '../../support/raw-http.ts';
import { describeWith } from '../../support/requires.ts';
import { Ca } from '../../support/stub-vault/certificates.ts';

const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

let server: Server;
afterEach(async () => {
  const closed = once(server, 'close');
  server.close().closeAllConnections();
  await closed;
});

it('a scrape each minute uses its connection again, and no head of more than 8 KiB is read', async () => {
  server = createAdminServer(1);
  server.on('request', (_request, response) => response.end('OK'));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const connection = await RawConnection.open(`http://127.0.0.1:${portOf(server)}`);
  const { headers } = await connection.send(get).response();
  expect(headers['keep-alive']).toBe('timeout=65');
  const large = `GET / HTTP/1.1\r\nHost: x\r\nA: ${'a'.repeat(8_192)}\r\n\r\n`;
  expect((await connection.send(large).response()).status).toBe(431);
});

describeWith('openssl').each([false, true])('with TLS, and client certificates: %s', (clients) => {
  it('a connection above the limit closes the oldest one without a request in flight', async () => {
    const folder = new Folder();
    const ca = new Ca(folder.path, 'ca');
    const { cert, key } = ca.issue('server');
    const pem = { cert: String(cert), key: String(key), minVersion: 'TLSv1.2' } as const;
    const tls = clients ? { ...pem, clientCa: String(ca.cert) } : pem;
    folder.remove();
    const ignore = (): void => {};
    const observer = { connected: ignore, failed: ignore };
    server = createAdminServer(2, (settings) => {
      const created = createHttpsServer(settings);
      acceptTls(created, { tls, timeout: 5_000, observer, verificationChanged: ignore });
      return created;
    });
    const finished = Promise.withResolvers<void>();
    server.on('request', (_request, response) => void finished.promise.then(() => response.end('OK')));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const open = async () => {
      const socket = connectTls({ port: portOf(server), host: '127.0.0.1', ca: ca.cert });
      await once(socket.on('error', ignore), 'secureConnect');
      return socket;
    };
    const busy = await open();
    const requested = once(server, 'request');
    busy.write(get);
    await requested;
    const idle = await open();
    const newcomer = await open();
    if (!idle.destroyed) await once(idle.resume(), 'close');
    newcomer.write(get);
    finished.resolve();
    for (const socket of [busy, newcomer]) expect(String(await once(socket, 'data'))).toContain('200 OK');
  });
});

it('the limit of connections holds though many come at once, before the first of them is closed', async () => {
  server = createAdminServer(2);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const sockets = Array.from({ length: 6 }, () => new Socket());
  for (const socket of sockets) server.emit('connection', socket);
  expect(sockets.map(({ destroyed }) => destroyed)).toEqual([true, true, true, true, false, false]);
  for (const socket of sockets) socket.destroy();
});

/** @returns a function that opens one more connection */
async function serve(limit: number, handle: RequestListener) {
  server = createAdminServer(limit);
  server.on('request', handle);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  return async (): Promise<RawConnection> => {
    const accepted = once(server, 'connection');
    const connection = await RawConnection.open(url);
    await accepted;
    return connection;
  };
}

describe('a connection above the limit', () => {
  it('closes the oldest one without a request in flight', async () => {
    const finished = Promise.withResolvers<void>();
    const open = await serve(2, (_request, response) => void finished.promise.then(() => response.end('OK')));
    const busy = await open();
    const requested = once(server, 'request');
    busy.send(get);
    await requested;
    const idle = await open();
    const newcomer = await open();
    expect(await idle.gone()).toBe('FIN');
    newcomer.send(get);
    finished.resolve();
    expect((await busy.response()).status).toBe(200);
    expect((await newcomer.response()).status).toBe(200);
  });

  it('is closed itself if all others have a request in flight', async () => {
    const open = await serve(1, () => {});
    const busy = await open();
    const requested = once(server, 'request');
    busy.send(get);
    await requested;
    expect(await (await open()).gone()).toMatch(/FIN|ECONNRESET/);
    expect(await Promise.race([busy.gone(), wait(50, 'open')])).toBe('open');
  });

  it('closes one with a completed request', async () => {
    const open = await serve(1, (_request, response) => response.end('OK'));
    const completed = await open();
    await completed.send(get).response();
    const newcomer = await open();
    expect(await completed.gone()).toBe('FIN');
    expect((await newcomer.send(get).response()).status).toBe(200);
  });
});

it('a connection whose client does not read its response is closed after the idle timeout', async () => {
  const open = await serve(1, (_request, response) => response.end(Buffer.alloc(32_000_000)));
  server.timeout = 100;
  const connection = await open();
  const requested = once(server, 'request');
  connection.pause().send(get);
  const [{ socket }, response] = await requested;
  const began = performance.now();
  await once(socket, 'close');
  expect(response.writableFinished).toBe(false);
  expect(performance.now() - began).toBeLessThan(5_000);
});
