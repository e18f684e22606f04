import type { Server } from 'node:http';
import { Server as NetServer } from 'node:net';
import type { Config } from '../config/schema.ts';
import type { Listener } from '../proxy/inbound/listener.ts';
import type { InflightRequests } from '../proxy/inflight-requests.ts';
import { endsWithin } from '../util/promises.ts';

/** Milliseconds between closing the port and closing idle connections. */
const idleGrace = 500;

/**
 * Graceful shutdown: keeps serving for the shutdown delay, closing each connection after its next response; then stops
 * listening; half a second later closes idle connections; then waits for in-flight requests.
 *
 * @param skipDelay ends the shutdown delay when it resolves
 * @returns whether all in-flight requests finished within `timeouts.shutdown`
 */
export async function shutDown(
  { server, connections }: Listener,
  inflight: InflightRequests,
  timeouts: Config['proxy']['timeouts'],
  skipDelay: Promise<unknown>,
): Promise<boolean> {
  connections.drain();
  await endsWithin(timeouts.shutdownDelay, skipDelay);
  stopListening(server);
  await endsWithin(idleGrace, connections.closed());
  connections.close();
  const finished = await endsWithin(timeouts.shutdown, Promise.all([connections.closed(), inflight.idle()]));
  if (!finished) await abortRequests(inflight);
  connections.destroyAll();
  // Also stops the check of header timeouts, which was needed until here.
  server.close();
  return finished;
}

/** Stops a service after a crash: aborts all in-flight requests, with their true outcome in response and log. */
export async function abort({ server, connections }: Listener, inflight: InflightRequests): Promise<void> {
  stopListening(server);
  connections.drain();
  await abortRequests(inflight);
  connections.destroyAll();
  await inflight.idle();
}

/** Milliseconds to write the responses of aborted requests, and to drain their bodies. */
const abortGrace = 300;

async function abortRequests(inflight: InflightRequests): Promise<void> {
  await inflight.abortAll();
  await endsWithin(abortGrace, inflight.idle());
}

/**
 * `close` of Node's HTTP server also closes idle connections at once, and a client about to use one would see a reset.
 */
function stopListening(server: Server): void {
  NetServer.prototype.close.call(server);
}
