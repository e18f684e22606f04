import type { Config } from '../config/schema.ts';
import type { Logger } from '../observability/logger.ts';
import { endsWithin } from '../util/promises.ts';
import type { Port } from './port.ts';

/** The requests of all services. */
interface Inflight {
  idle(): Promise<void>;
  abortAll(): Promise<void>;
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
  port: Port,
  inflight: Inflight,
  timeouts: Config['proxy']['timeouts'],
  skipDelay: Promise<unknown>,
): Promise<boolean> {
  port.drain();
  await endsWithin(timeouts.shutdownDelay, skipDelay);
  port.stopListening();
  await endsWithin(idleGrace, port.allEnded());
  port.endWhenIdle();
  const finished = await endsWithin(timeouts.shutdown, Promise.all([port.allEnded(), inflight.idle()]));
  if (!finished) await abortRequests(inflight);
  port.destroyAll();
  return finished;
}

/** Stops after a crash: aborts all in-flight requests, with their true outcome in response and log. */
export async function abort(port: Port, inflight: Inflight): Promise<void> {
  port.stopListening();
  port.drain();
  await abortRequests(inflight);
  port.destroyAll();
  await inflight.idle();
}

/** Milliseconds to write the responses of aborted requests, and to drain their bodies. */
const abortGrace = 300;

async function abortRequests(inflight: Inflight): Promise<void> {
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
    // After an exception no promise goes on before the next turn, and the abort relies on promises.
    setImmediate(() => void exit());
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
