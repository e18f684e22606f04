import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import { expect, it } from '@jest/globals';
import { createAgent, drainAgent } from '../../../src/net/agent.ts';
import { harness } from '../../support/harness.ts';
import { listen } from '../../support/listening.ts';
import { until } from '../../support/until.ts';

const starts = harness();

/** A server that responds to every request, and a client with one agent. */
async function start() {
  let connections = 0;
  const server = createServer({ keepAliveTimeout: 60_000 }, (_request, response) => response.end('OK'));
  server.on('connection', () => {
    connections += 1;
  });
  const { port } = starts.closing(await listen(server));
  const agent = createAgent(`http://127.0.0.1:${port}`, {}, { keepAlive: true });
  starts.atEnd(() => agent.destroy());
  const send = () => {
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

it('a drained agent closes the connections in use after their responses, not before', async () => {
  const { send, agent } = await start();
  const sent = [send(), send()];
  const sockets = await Promise.all(
    sent.map(async ({ request }): Promise<Socket> => (await once(request, 'socket'))[0]),
  );
  drainAgent(agent);
  expect(await Promise.all(sent.map(({ status }) => status))).toEqual([200, 200]);
  await until(() => sockets.every(({ destroyed }) => destroyed), 'the connections are closed');
});

it('a drained agent closes idle connections at once', async () => {
  const { send, agent } = await start();
  await send().status;
  const idle = Object.values(agent.freeSockets).flat();
  expect(idle).toHaveLength(1);
  drainAgent(agent);
  expect(idle.map((socket) => socket?.destroyed)).toEqual([true]);
});

it('a connection is used again, but not on a Node that can mix up responses', async () => {
  const used = async (): Promise<number> => {
    const { send, connections } = await start();
    for (const _ of [1, 2]) await send().status;
    return connections();
  };
  expect(await used()).toBe(1);
  const own = Object.getOwnPropertyDescriptor(process, 'version') ?? {};
  Object.defineProperty(process, 'version', { ...own, value: 'v26.12.0' });
  try {
    expect(await used()).toBe(2);
  } finally {
    Object.defineProperty(process, 'version', own);
  }
});
