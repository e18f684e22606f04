import { boundToSpan } from '../util/trace.ts';
import { SourceUnavailable } from './errors.ts';
import { type LoginRef, loginRefString } from './login-ref.ts';

/** Maximum concurrent reads: a source that has just recovered must not be flooded. */
const maximumRunning = 8;
/** Milliseconds that a request waits for its read to start. The read itself is limited by the source's timeout. */
const maximumWait = 5000;

interface Fetch<Result> extends PromiseWithResolvers<Result> {
  readonly login: LoginRef;
  readonly waitingSince: number;
  /** Runs the read as a step of the request that requested it first. */
  readonly run: <T>(work: () => T) => T;
}

/** Foreground: a request is waiting. Background: a refresh, which goes last and may wait for long. */
type Priority = 'foreground' | 'background';

/**
 * Single flight with a concurrency limit: one read of the source at a time per login, with at most one more
 * queued; a few at a time in all, foreground first.
 */
export class FetchQueue<Result> {
  readonly #read: (login: LoginRef) => Promise<Result>;
  readonly #monotonic: () => number;
  readonly #running = new Map<string, Fetch<Result>>();
  readonly #waiting: Readonly<Record<Priority, Map<string, Fetch<Result>>>> = {
    foreground: new Map(),
    background: new Map(),
  };

  constructor(read: (login: LoginRef) => Promise<Result>, monotonic: () => number) {
    this.#read = read;
    this.#monotonic = monotonic;
  }

  /** The result of the read in flight, or of a new one. */
  fetch(login: LoginRef, priority: Priority): Promise<Result> {
    return this.#running.get(loginRefString(login))?.promise ?? this.fetchFresh(login, priority);
  }

  /** The result of a read that starts after this call: one in flight may have read the old value already. */
  fetchFresh(login: LoginRef, priority: Priority): Promise<Result> {
    const name = loginRefString(login);
    const { foreground, background } = this.#waiting;
    const queued = foreground.get(name);
    if (queued !== undefined) return queued.promise;
    const waitingSince = this.#monotonic();
    const run = boundToSpan();
    const fetch = { ...(background.get(name) ?? Promise.withResolvers<Result>()), login, waitingSince, run };
    background.delete(name);
    this.#waiting[priority].set(name, fetch);
    this.#startWaiting();
    return fetch.promise;
  }

  #startWaiting(): void {
    this.#rejectOverdue();
    for (const queue of [this.#waiting.foreground, this.#waiting.background]) {
      for (const [name, fetch] of queue) {
        if (this.#running.size >= maximumRunning) return;
        if (this.#running.has(name)) continue;
        queue.delete(name);
        void this.#start(name, fetch);
      }
    }
  }

  async #start(name: string, fetch: Fetch<Result>): Promise<void> {
    this.#running.set(name, fetch);
    try {
      fetch.resolve(await fetch.run(() => this.#read(fetch.login)));
    } catch (error) {
      fetch.reject(error);
    }
    this.#running.delete(name);
    this.#startWaiting();
  }

  /** Needs no timer: every running read ends within the source's timeout, and then this runs again. */
  #rejectOverdue(): void {
    const { foreground } = this.#waiting;
    const overdue = this.#monotonic() - maximumWait;
    for (const [name, fetch] of foreground) {
      if (fetch.waitingSince > overdue) return;
      foreground.delete(name);
      const timeout = new Error('timed out waiting for other key reads');
      fetch.reject(new SourceUnavailable(fetch.login, timeout, 'unknown'));
    }
  }
}
