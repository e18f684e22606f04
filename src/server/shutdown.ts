import type { Server } from 'node:http';
import { Server as NetServer } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../config/schema.ts';
import type { Listener } from '../proxy/inbound/listener.ts';
import type { InflightRequests } from '../proxy/inflight-requests.ts';

export interface ShutdownParts {
  readonly listener: Listener;
  readonly inflight: InflightRequests;
  readonly timeouts: Config['proxy']['timeouts'];
}

/** Milliseconds between the end of listening and the end of idle connections. */
const idleGrace = 1_000;

/**
 * A graceful shutdown: requests are served for the shutdown delay, and each connection ends with its next response;
 * then no connection is accepted any more; a second later idle connections end; then requests in flight finish.
 *
 * @param skipDelay when it resolves, the shutdown delay is over
 * @returns whether every request in flight finished within `timeouts.shutdown`
 */
export async function shutDown(parts: ShutdownParts, skipDelay: Promise<unknown>): Promise<boolean> {
  const { listener, inflight, timeouts } = parts;
  const { server, connections } = listener;
  connections.drain();
  await within(timeouts.shutdownDelay, skipDelay);
  stopListening(server);
  await within(idleGrace, connections.closed());
  connections.closeAfterReceived();
  const finished = await within(timeouts.shutdown, Promise.all([connections.closed(), inflight.idle()]));
  if (!finished) await abortRequests(parts);
  connections.destroyAll();
  // Ends the check of header timeouts, which had to go on until here.
  server.close();
  return finished;
}

/** Ends a service after a defect: each request in flight ends at once, with its true outcome in response and log. */
export async function abort(parts: Omit<ShutdownParts, 'timeouts'>): Promise<void> {
  const { listener, inflight } = parts;
  stopListening(listener.server);
  listener.connections.drain();
  await abortRequests(parts);
  listener.connections.destroyAll();
  await inflight.idle();
}

/** Milliseconds in which responses to aborted requests are written, after reading bodies that are no longer wanted. */
const abortGrace = 300;

async function abortRequests({ inflight }: Pick<ShutdownParts, 'inflight'>): Promise<void> {
  await inflight.abortAll();
  await within(abortGrace, inflight.idle());
}

/**
 * Node's HTTP server would also close idle connections at once, and a client that is about to use one would see a
 * reset.
 */
function stopListening(server: Server): void {
  NetServer.prototype.close.call(server);
}

/** Whether the work ended within so many milliseconds. */
async function within(milliseconds: number, work: Promise<unknown>): Promise<boolean> {
  const timer = new AbortController();
  const late = wait(milliseconds, false, { signal: timer.signal });
  const inTime = await Promise.race([work.then(() => true), late]);
  timer.abort();
  await late.catch(() => {});
  return inTime;
}
