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

/** A Countersign whose clients have 300 ms to send the headers, and to read a response. */
async function startHasty(timeouts: object = {}): Promise<Edge> {
  const edge = await startEdge({
    config: { proxy: { port: 0, timeouts: { headers: '300ms', body: '300ms', ...timeouts } } },
  });
  stops.push(edge.stop);
  return edge;
}

/** A connection from which only the 64 KiB that Node reads ahead are read. */
async function connectDeaf({ proxy }: Edge): Promise<Socket> {
  const { hostname, port } = new URL(proxy.url);
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  socket.on('error', () => {});
  // Before the proxy, which would wait for it.
  stops.unshift(async () => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** An empty line means nothing in HTTP, and cannot be written to a closed connection. */
function untilLetGo(caller: Socket): Promise<void> {
  return until(() => {
    caller.write('\r\n');
    return caller.destroyed;
  });
}

describe('a client that does not read', () => {
  // More than the buffers of both systems hold.
  it.each([
    ['responses of the gateway', 12, formRequest(status, statusForm)],
    ['Countersign’s own responses', 12_000, 'GET / HTTP/1.1\r\nHost: countersign.test\r\n\r\n'],
  ])('is disconnected after the timeout for reading a response: %s', async (_, count, request) => {
    const edge = await startHasty();
    edge.gateway.reply = (response) => response.end(Buffer.alloc(1_000_000));
    const caller = await connectDeaf(edge);
    caller.write(request.repeat(count));
    await untilLetGo(caller);
    // The requests whose responses no buffer had room for were never handled.
    const { length: handled } = await edge.exchanges(1);
    expect(handled).toBeLessThan(count);
    expect(await edge.proxy.stop()).toBe(true);
  });

  it('is disconnected at the end of a shutdown, even before the timeout for its response', async () => {
    const edge = await startHasty({ body: '30s', shutdown: '100ms' });
    edge.gateway.reply = (response) => response.end(Buffer.alloc(1_000_000));
    const caller = await connectDeaf(edge);
    caller.write(formRequest(status, statusForm).repeat(12));
    await until(() => edge.gateway.requests.length > 1);
    expect(await edge.proxy.stop()).toBe(false);
    await untilLetGo(caller);
    expect(caller.destroyed).toBe(true);
  });
});

it.each([
  ['what is not HTTP', 'ZZZ\r\n\r\n'],
  ['the beginning of a head', 'POST / HT'],
  ['CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n'],
])(
  'a client that keeps its side open after the response to an invalid request is disconnected: %s',
  async (_, bytes) => {
    const edge = await startHasty();
    const caller = await connectDeaf(edge);
    caller.resume().write(bytes);
    await once(caller, 'end');
    // Shutdown waits up to 35 s for every connection.
    expect(await edge.proxy.stop()).toBe(true);
  },
);

it('a response that waits for the previous one does not time out', async () => {
  const edge = await startHasty();
  const going = Promise.withResolvers<void>();
  edge.gateway.reply = (response) => {
    if (response.req.url?.includes('transfer')) void going.promise.then(() => response.end('first'));
    else response.end('second');
  };
  const connection = await RawConnection.open(edge.proxy.url);
  connection.send(formRequest(transfer) + formRequest(status, statusForm));
  await until(() => edge.gateway.requests.length === 1);
  // Longer than the timeout for reading the second response, which has not begun yet.
  setTimeout(() => going.resolve(), 600);
  expect((await connection.answer()).body.toString()).toBe('first');
  expect((await connection.answer()).body.toString()).toBe('second');
  expect(await nextIsServed(connection)).toBe(true);
});
