import type { ValidConfig } from '../config/load.ts';
import { fieldsForRestart, ServiceInUse } from './reload.ts';
import { createShared, type ServiceOptions } from './shared.ts';
import { abort, shutDown } from './shutdown.ts';

/** The running proxy with its two ports. */
export type Countersign = Awaited<ReturnType<typeof startCountersign>>;

/** Milliseconds to send the last spans. */
const tracingTimeout = 2_000;
/** Milliseconds to write the last audit records. */
const auditTimeout = { stop: 2_000, abort: 500 };

/** @throws Error of `listen`, or for unreadable files */
export async function startCountersign(loaded: ValidConfig, options: ServiceOptions) {
  let draining = false;
  const shared = await createShared(loaded, options, () => draining);
  const { audit, once, metrics, tracing } = shared;
  const service = new ServiceInUse(shared);
  const { listener, admin } = service.ports;
  try {
    await service.replace(loaded);
    // Last, since a request that is accepted is also sent.
    await admin.listen(loaded.config.admin);
    await listener.listen(loaded.config.proxy);
  } catch (error) {
    // A process that has one port alone must not look healthy.
    listener.destroyAll();
    admin.destroyAll();
    await Promise.all([audit?.close(auditTimeout.stop), once?.close(), service.stop()]);
    throw error;
  }
  return {
    get proxyUrl(): string {
      return listener.url;
    },
    get adminUrl(): string {
      return admin.url;
    },
    /**
     * Replaces the service by one with another configuration. Requests in flight keep theirs.
     *
     * @returns the fields that differ from those the process started with, and require a restart
     * @throws Error for unreadable files, for another key source that does not respond; nothing has changed then
     */
    async reload(next: ValidConfig): Promise<readonly string[]> {
      await service.replace(next);
      audit?.configApplied(next.digest);
      return fieldsForRestart(loaded.config, next.config);
    },
    /** Begins the next audit file. @throws Error if its key cannot be read; the previous one stays in use */
    reopenAudit: async () => audit?.reopen(),
    /** For metric and status. @param problem why not all of the file is in effect */
    configLoaded: (problem?: string) => metrics.configLoaded(problem),
    /**
     * Graceful shutdown. Resolves to whether all in-flight requests finished in time.
     *
     * @param skipDelay ends the shutdown delay when it resolves
     */
    async stop(skipDelay: Promise<unknown>): Promise<boolean> {
      draining = true;
      const { timeouts } = (service.current?.config ?? loaded.config).proxy;
      options.log.message('info', 'shutting down: draining in-flight requests', {
        inFlight: service.inFlight,
        timeoutSeconds: (timeouts.shutdownDelay + timeouts.shutdown) / 1000,
      });
      const finished = await shutDown(listener, service, timeouts, skipDelay);
      await Promise.all([audit?.close(auditTimeout.stop), tracing.stop(tracingTimeout), once?.close()]);
      await service.stop();
      // Open until now, so that /readyz reports the shutdown.
      admin.destroyAll();
      return finished;
    },
    /** After a crash: accepts no more requests, and aborts those in flight. Resolves when each has its log line. */
    async abort(): Promise<void> {
      draining = true;
      await abort(listener, service);
      await Promise.all([audit?.close(auditTimeout.abort), once?.close()]);
    },
  };
}
