import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type Edge, nextIsServed, startEdge, status, statusForm, transfer } from '../support/edge.ts';
import { until } from '../support/forwarding.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

/** A Countersign that gives its callers 300 ms to read an answer. */
async function startHasty(): Promise<Edge> {
  const edge = await startEdge({ config: { proxy: { port: 0, deadlines: { body: '300ms' } } } });
  stops.push(edge.stop);
  return edge;
}

/** A connection from which nothing is read beyond the 64 KiB that Node reads ahead. */
async function connectDeaf({ proxy }: Edge): Promise<Socket> {
  const { hostname, port } = new URL(proxy.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

describe('a caller who does not read', () => {
  // More than the buffers of the two systems hold.
  it.each([
    ['answers of the gateway', 12, formRequest(status, statusForm)],
    ['answers of Countersign’s own', 12_000, 'GET / HTTP/1.1\r\nHost: countersign.test\r\n\r\n'],
  ])('is let go when the time for its answer is over: %s', async (_, count, request) => {
    const edge = await startHasty();
    edge.gateway.reply = (response) => response.end(Buffer.alloc(1_000_000));
    const caller = await connectDeaf(edge);
    caller.write(request.repeat(count));
    // An empty line means nothing to HTTP, and is refused where the connection has been reset.
    await until(() => {
      caller.write('\r\n');
      return caller.destroyed;
    });
  });
});

it('an answer that waits for the one before it is not late', async () => {
  const edge = await startHasty();
  const going = Promise.withResolvers<void>();
  edge.gateway.reply = (response) => {
    if (response.req.url?.includes('transfer')) void going.promise.then(() => response.end('first'));
    else response.end('second');
  };
  const connection = await RawConnection.open(edge.proxy.url);
  connection.send(formRequest(transfer) + formRequest(status, statusForm));
  await edge.exchanges(1);
  // Longer than the second may wait to be read, once it can be.
  setTimeout(() => going.resolve(), 600);
  expect((await connection.answer()).body.toString()).toBe('first');
  expect((await connection.answer()).body.toString()).toBe('second');
  expect(await nextIsServed(connection)).toBe(true);
});
