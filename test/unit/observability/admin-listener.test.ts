import { once } from 'node:events';
import type { RequestListener, Server } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type AdminTimeouts, createAdminServer } from '../../../src/observability/admin-app.ts';
import { RawConnection } from '../../support/raw-http.ts';

const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

let server: Server;
afterEach(async () => {
  const closed = once(server, 'close');
  server.close().closeAllConnections();
  await closed;
});

/** @returns a function that opens one more connection */
async function serve(limit: number, handle: RequestListener, timeouts: Partial<AdminTimeouts> = {}) {
  server = createAdminServer(limit, timeouts);
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
  const open = await serve(1, (_request, response) => response.end(Buffer.alloc(32_000_000)), { idle: 100 });
  const connection = await open();
  const requested = once(server, 'request');
  connection.pause().send(get);
  const [{ socket }, response] = await requested;
  const began = performance.now();
  await once(socket, 'close');
  expect(response.writableFinished).toBe(false);
  expect(performance.now() - began).toBeLessThan(5_000);
});
