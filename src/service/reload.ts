import { isDeepStrictEqual } from 'node:util';
import type { ValidConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { createPorts, type Ports, usePorts } from './ports.ts';
import { buildService, type Service } from './service.ts';
import type { Shared } from './shared.ts';

/** What is opened once for a process: with another store, claims that live would be unknown. (The audit key is read again.) */
export const startOnly: Readonly<Record<string, (config: Config) => unknown>> = {
  audit: ({ audit }) => audit,
  'payments.once': ({ payments }) => payments.once,
  'log.level': ({ log }) => log.level,
};

/** The fields that differ from those the process started with, and require a restart. */
export function fieldsForRestart(started: Config, next: Config): readonly string[] {
  return Object.entries(startOnly)
    .filter(([, read]) => !isDeepStrictEqual(read(started), read(next)))
    .map(([field]) => field);
}

/** The ports of a process, and the service that handles their requests. A start and a reload replace it in the same way. */
export class ServiceInUse {
  readonly ports: Ports;
  /** Changed by {@link replace} alone. */
  current: Service | undefined;
  readonly #shared: Shared;
  /** The current one, and those before it that still have requests in flight. */
  readonly #services = new Set<Service>();

  constructor(shared: Shared) {
    this.#shared = shared;
    this.ports = createPorts(shared, this);
  }

  /**
   * Builds a service beside the current one, checks it, and lets it take over the ports. Requests in flight stay with the
   * one before.
   *
   * @throws Error if it cannot take over; nothing has changed then
   */
  async replace(loaded: ValidConfig): Promise<void> {
    const previous = this.current;
    const { config: inUse } = previous ?? loaded;
    const moved = (['proxy', 'admin'] as const).filter(
      (port) => addressOf(inUse[port]) !== addressOf(loaded.config[port]),
    );
    if (moved.length > 0)
      throw new Error(`host or port of ${moved.join(' and ')} changed, which requires a restart`);
    const next = await buildService(loaded, this.#shared, previous);
    try {
      if (previous !== undefined) await next.check(previous);
      if (this.#shared.isDraining()) throw new Error('the process is shutting down');
    } catch (error) {
      await next.stop(this.#services);
      throw error;
    }
    this.current = next;
    this.#services.add(next);
    next.begin(() => usePorts(this.ports, next), previous);
    usePorts(this.ports, next);
    if (previous !== undefined) void this.#drain(previous);
  }

  get inFlight(): number {
    return Array.from(this.#services).reduce((sum, { inflight }) => sum + inflight.count, 0);
  }

  /** Resolves when no request is in flight. */
  async idle(): Promise<void> {
    await Promise.all(Array.from(this.#services, ({ inflight }) => inflight.idle()));
  }

  /** Aborts all requests. */
  async abortAll(): Promise<void> {
    await Promise.all(Array.from(this.#services, ({ inflight }) => inflight.abortAll()));
  }

  async stop(): Promise<void> {
    await Promise.all(Array.from(this.#services, (service) => service.stop(new Set<Service>())));
  }

  async #drain(previous: Service): Promise<void> {
    previous.certificates.stop();
    await previous.inflight.idle();
    this.#services.delete(previous);
    await previous.stop(this.#services);
  }
}

/** What may be open on loopback depends on the host, so that the rest of a configuration with another one cannot be applied. */
function addressOf({ host, port }: Config['proxy' | 'admin']): string {
  return `${host} ${port}`;
}
