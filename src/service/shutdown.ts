import type { Config } from '../config/schema.ts';
import type { Port } from '../net/port.ts';
import type { Logger } from '../observability/logger.ts';
import type { Listener } from '../proxy/inbound/listener.ts';
import type { InflightRequests } from '../proxy/inflight-requests.ts';
import { endsWithin } from '../util/promises.ts';

/** A port, and what serves its connections. */
export interface ServedPort {
  readonly port: Port;
  readonly listener: Listener;
}

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
  served: ServedPort,
  inflight: InflightRequests,
  timeouts: Config['proxy']['timeouts'],
  skipDelay: Promise<unknown>,
): Promise<boolean> {
  const { port, listener } = served;
  const { connections } = listener;
  connections.drain();
  await endsWithin(timeouts.shutdownDelay, skipDelay);
  port.close();
  await endsWithin(idleGrace, connections.closed());
  connections.close();
  const finished = await endsWithin(timeouts.shutdown, Promise.all([connections.closed(), inflight.idle()]));
  if (!finished) await abortRequests(inflight);
  endPort(served);
  return finished;
}

/** Ends a port and all its connections. */
export function endPort({ port, listener }: ServedPort): void {
  port.close();
  port.destroyAll();
  listener.close();
}

/** Stops a service after a crash: aborts all in-flight requests, with their true outcome in response and log. */
export async function abort({ port, listener }: ServedPort, inflight: InflightRequests): Promise<void> {
  port.close();
  listener.connections.drain();
  await abortRequests(inflight);
  port.destroyAll();
  await inflight.idle();
}

/** Milliseconds to write the responses of aborted requests, and to drain their bodies. */
const abortGrace = 300;

async function abortRequests(inflight: InflightRequests): Promise<void> {
  await inflight.abortAll();
  await endsWithin(abortGrace, inflight.idle());
}

/** Maximum milliseconds from an uncaught exception to the exit of the process. */
const exitTimeout = 2_000;

/**
 * After an uncaught exception, exits with code 1 without printing the error, which may contain secrets.
 *
 * @param flush writes buffered log lines
 */
export function installCrashHandlers(log: Logger, flush: () => Promise<void>) {
  let abort = (): Promise<void> => Promise.resolve();
  let exiting = false;
  const exit = async (): Promise<void> => {
    try {
      await abort();
    } catch (failure) {
      logCrash(log, 'abort', failure);
    }
    await flush();
    process.exit(1);
  };
  process.on('uncaughtException', (error: unknown, origin) => {
    logCrash(log, origin, error);
    // A further exception must not stop the abort.
    if (exiting) return;
    exiting = true;
    setTimeout(() => process.exit(1), exitTimeout);
    void exit();
  });
  return {
    /** @param next ends in-flight requests; called once, after an uncaught exception and before the exit */
    beforeExit(next: () => Promise<void>): void {
      abort = next;
    },
  };
}

function logCrash(log: Logger, origin: string, error: unknown): void {
  try {
    log.crash(origin, error);
  } catch {
    // The thrown value throws when it is read. If this handler failed, Node would print the value.
    log.crash(origin, undefined);
  }
}
