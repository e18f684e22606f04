import { once } from 'node:events';
import { Agent, type ClientRequest, createServer, type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import { afterEach, expect, it } from '@jest/globals';
import { drainAgent, guardReuse } from '../../../src/net/agent.ts';
import { listen } from '../../support/listening.ts';
import { until } from '../../support/until.ts';

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

interface Sent {
  readonly request: ClientRequest;
  /** Resolves to the status after the end of the response. */
  readonly status: Promise<number | undefined>;
}

/** A server that responds to every request, and a client with one agent. */
async function start(maxSockets: number) {
  let connections = 0;
  const server = createServer({ keepAliveTimeout: 60_000 }, (_request, response) => response.end('OK'));
  server.on('connection', () => {
    connections += 1;
  });
  const { port, close } = await listen(server);
  const agent = guardReuse(new Agent({ keepAlive: true, maxSockets }));
  stops.push(
    () => agent.destroy(),
    () => void close(),
  );
  const send = (): Sent => {
    const sent = request({ port, agent });
    const responded = new Promise<IncomingMessage>((resolve, reject) => {
      sent.once('response', resolve).once('error', reject).end();
    });
    const status = responded.then(async (response) => {
      await once(response.resume(), 'close');
      return response.statusCode;
    });
    return { request: sent, status };
  };
  return { send, connections: () => connections, agent };
}

it('a request that was queued for the connection of another one has reusedSocket set', async () => {
  const { send, connections } = await start(1);
  const [first, second] = [send(), send()];
  await Promise.all([first.status, second.status]);
  expect(connections()).toBe(1);
  expect([first.request.reusedSocket, second.request.reusedSocket]).toEqual([false, true]);
});

it('an error of a connection that is about to be reused neither crashes the process nor fails the request', async () => {
  const { send, connections } = await start(1);
  const first = send();
  const [socket]: Socket[] = await once(first.request, 'socket');
  await first.status;
  // By then the connection is back in the pool.
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  const second = send();
  socket?.destroy(new Error('read ECONNRESET'));
  expect(await second.status).toBe(200);
  expect(second.request.reusedSocket).toBe(false);
  expect(connections()).toBe(2);
});

it('a drained agent closes the connections in use after their responses, not before', async () => {
  const { send, agent } = await start(2);
  const sent = [send(), send()];
  const sockets = await Promise.all(
    sent.map(async ({ request }): Promise<Socket> => (await once(request, 'socket'))[0]),
  );
  drainAgent(agent);
  expect(await Promise.all(sent.map(({ status }) => status))).toEqual([200, 200]);
  await until(() => sockets.every(({ destroyed }) => destroyed), 'the connections are closed');
});

it('a paused connection, which may have unread bytes, is not reused', async () => {
  const { send, connections } = await start(1);
  const first = send();
  const [socket]: Socket[] = await once(first.request, 'socket');
  await first.status;
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  socket?.pause();
  const second = send();
  expect(await second.status).toBe(200);
  expect(second.request.reusedSocket).toBe(false);
  expect(connections()).toBe(2);
});
