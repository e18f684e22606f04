import { describe, expect, it } from '@jest/globals';
import { nextIsServed } from '../support/countersign.ts';
import { paths, statusForm } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const { status, transfer } = paths;

const starts = harness();

/** A Countersign whose clients have 300 ms to send the headers, and to read a response. */
const startHasty = (timeouts: object = {}): Promise<Edge> =>
  starts.edge({ config: { proxy: { port: 0, timeouts: { headers: '300ms', body: '300ms', ...timeouts } } } });

/** A connection from which only the 64 KiB that Node reads ahead are read. */
async function connectPaused(edge: Edge): Promise<RawConnection> {
  const connection = (await edge.connect()).pause();
  // The proxy would wait for it.
  return starts.closing(connection);
}

/** Sends empty lines, which mean nothing in HTTP and cannot be written to a closed connection. */
const untilDisconnected = (caller: RawConnection): Promise<void> =>
  until(() => caller.send('\r\n').socket.destroyed);

describe('a client that does not read', () => {
  // More than the buffers of both systems hold.
  it.each([
    ['responses of the gateway', 12, formRequest(status, statusForm)],
    ['Countersign’s own responses', 12_000, 'GET / HTTP/1.1\r\nHost: countersign.test\r\n\r\n'],
  ])('is disconnected after the timeout for reading a response: %s', async (_, count, request) => {
    const edge = await startHasty({ headers: '30s' });
    edge.gateway.respond = (response) => response.end(Buffer.alloc(1_000_000));
    const caller = await connectPaused(edge);
    caller.send(request.repeat(count));
    await untilDisconnected(caller);
    // Requests whose responses no buffer had room for were not handled.
    const { length: handled } = await edge.requestLines(1);
    expect(handled).toBeLessThan(count);
    expect(await edge.stop()).toBe(true);
  });

  it('is disconnected at the end of a shutdown, even before the timeout for its response', async () => {
    const edge = await startHasty({ body: '30s', shutdown: '100ms' });
    edge.gateway.respond = (response) => response.end(Buffer.alloc(1_000_000));
    const caller = await connectPaused(edge);
    caller.send(formRequest(status, statusForm).repeat(12));
    await until(() => edge.gateway.requests.length > 1);
    expect(await edge.stop()).toBe(false);
    await untilDisconnected(caller);
    expect(caller.socket.destroyed).toBe(true);
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
    const caller = starts.closing(await edge.connect()).send(bytes);
    await until(() => caller.ending === 'FIN');
    // Shutdown waits up to 35 s for every connection.
    expect(await edge.stop()).toBe(true);
  },
);

it('a response that waits for the previous one does not time out', async () => {
  const edge = await startHasty({ headers: '1s', body: '1s' });
  const going = Promise.withResolvers<void>();
  edge.gateway.respond = (response) => {
    if (response.req.url?.includes('transfer')) void going.promise.then(() => response.end('first'));
    else response.end('second');
  };
  const connection = await edge.connect();
  connection.send(formRequest(transfer, 'client_orderid=1') + formRequest(status, statusForm));
  await until(() => edge.gateway.requests.length === 1);
  // Longer than the timeout for reading the second response, which has not begun yet.
  setTimeout(() => going.resolve(), 1_500);
  expect((await connection.response()).body.toString()).toBe('first');
  expect((await connection.response()).body.toString()).toBe('second');
  expect(await nextIsServed(connection)).toBe(true);
});
