import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { paths, statusForm } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const { status } = paths;

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

/** Sends requests, one after the other, until the buffers of both systems have no room for another response. */
async function untilUnread(edge: Edge, caller: RawConnection): Promise<void> {
  edge.gateway.respond = (response) => response.end(Buffer.alloc(1_000_000));
  for (let sent = 1; ; sent += 1) {
    caller.send(formRequest(status, statusForm));
    const isWritten = until(() => edge.logLines('request completed').length === sent).then(() => true);
    if ((await Promise.race([isWritten, wait(2_000)])) !== true) {
      isWritten.catch(() => {});
      return;
    }
  }
}

/** Sends empty lines, which mean nothing in HTTP and cannot be written to a closed connection. */
const untilDisconnected = (caller: RawConnection): Promise<void> =>
  until(() => caller.send('\r\n').socket.destroyed);

describe('a client that does not read', () => {
  it('is disconnected after the timeout for reading a response', async () => {
    const edge = await startHasty({ headers: '30s' });
    const caller = await connectPaused(edge);
    await untilUnread(edge, caller);
    await untilDisconnected(caller);
    expect(await edge.stop()).toBe(true);
  });

  it('is disconnected at the end of a shutdown, even before the timeout for its response', async () => {
    const edge = await startHasty({ body: '30s', shutdown: '100ms' });
    const caller = await connectPaused(edge);
    await untilUnread(edge, caller);
    expect(await edge.stop()).toBe(false);
    await untilDisconnected(caller);
    expect(caller.socket.destroyed).toBe(true);
  });
});

it('a client that keeps its side open after the response to an invalid request is disconnected', async () => {
  const edge = await startHasty();
  const invalid = ['ZZZ\r\n\r\n', 'POST / HT', 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n'];
  for (const bytes of invalid) {
    const caller = starts.closing(await edge.connect()).send(bytes);
    await until(() => caller.ending === 'FIN', bytes);
  }
  // Shutdown waits up to 35 s for every connection.
  expect(await edge.stop()).toBe(true);
});
