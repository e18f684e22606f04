import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ConnectionTracker } from '../../../../src/proxy/inbound/listener.ts';
import { RawConnection } from '../../../support/raw-http.ts';

let server: Server;
let tracker: ConnectionTracker;
beforeEach(async () => {
  server = createServer();
  tracker = new ConnectionTracker();
  tracker.serve(server, (_request, response) => response.end('OK'));
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterEach(() => {
  tracker.destroyAll();
  server.close();
});

/** Both ends of a connection. */
async function open(): Promise<{ client: RawConnection; socket: Socket }> {
  const address = server.address();
  const accepted = once(server, 'connection');
  const client = await RawConnection.open(
    `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
  );
  const [socket] = await accepted;
  return { client, socket };
}

const state = (closed: Promise<void>): Promise<string> =>
  Promise.race([closed.then(() => 'closed'), wait(20, 'open')]);

describe('the connections of a server', () => {
  it('are all closed when the last one is closed, each time', async () => {
    expect(await state(tracker.closed())).toBe('closed');
    for (let nth = 0; nth < 2; nth += 1) {
      const [first, second] = [await open(), await open()];
      const closed = tracker.closed();
      first.client.close();
      await once(first.socket, 'close');
      expect(await state(closed)).toBe('open');
      second.client.close();
      await closed;
    }
  });

  it('can all be destroyed, including those after a CONNECT', async () => {
    const [idle, tunnel] = [await open(), await open()];
    server.once('connect', () => {});
    const left = once(server, 'connect');
    tunnel.client.send('CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n');
    await left;
    tracker.destroyAll();
    await Promise.all([idle.client.gone(), tunnel.client.gone()]);
    await tracker.closed();
  });

  it('do not crash the process if the client resets one after a CONNECT', async () => {
    const { client, socket } = await open();
    const left = once(server, 'connect');
    client.send('CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n');
    await left;
    socket.resume();
    // Not `once` of node:events, which also listens for errors.
    const closed = new Promise((resolve) => socket.once('close', resolve));
    client.reset();
    // Without a listener for its error this would be an uncaught exception.
    expect(await closed).toBe(true);
  });
});
