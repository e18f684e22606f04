import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { GuardedConnection, HandshakeQueue } from '../../../../src/proxy/inbound/guarded-connection.ts';
import { type Listening, listen } from '../../../support/listening.ts';

const server = createServer({ allowHalfOpen: true });
let listening: Listening;
beforeEach(async () => {
  listening = await listen(server);
});
afterEach(() => listening.close());

it('its end is passed on, and what the client sends after that is still read', async () => {
  const accepted = once(server, 'connection');
  const client = connect({ port: listening.port, allowHalfOpen: true }).resume();
  const [socket] = await accepted;
  const connection = new GuardedConnection(socket, new HandshakeQueue(() => {}));
  connection.end('response');
  await once(client, 'end');
  client.end('rest');
  const [chunk] = await once(connection, 'data');
  expect(`${chunk}`).toBe('rest');
});
