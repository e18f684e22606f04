import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import { expect, it } from '@jest/globals';
import { createAgent, drainAgent } from '../../../src/net/agent.ts';
import { closeServer, listen } from '../../../src/net/http.ts';
import { until } from '../../support/until.ts';

it('a drained agent closes the connections in use after their responses, not before', async () => {
  const server = createServer({ keepAliveTimeout: 60_000 }, (_request, response) => response.end('OK'));
  const url = await listen(server, { host: '127.0.0.1', port: 0 });
  const agent = createAgent(url, {}, { keepAlive: true });
  const sent = [1, 2].map(() => request(url, { agent }));
  const responses = Promise.all(
    sent.map(async (each): Promise<number | undefined> => {
      const [response]: IncomingMessage[] = await once(each.end(), 'response');
      await once(response!.resume(), 'close');
      return response!.statusCode;
    }),
  );
  const sockets = await Promise.all(
    sent.map(async (each): Promise<Socket> => (await once(each, 'socket'))[0]),
  );
  drainAgent(agent);
  expect(await responses).toEqual([200, 200]);
  await until(() => sockets.every(({ destroyed }) => destroyed), 'the connections are closed');
  await closeServer(server);
});
