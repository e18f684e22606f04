import { setTimeout as wait } from 'node:timers/promises';
import { Backoff } from '../util/backoff.ts';
import type { MonotonicClock, Randomness } from '../util/clock.ts';
import { RedisConnection, type RedisServer } from './redis-connection.ts';
import { type ClaimStore, StoreUnavailable } from './store.ts';

interface RedisStoreOptions extends MonotonicClock, Randomness {
  readonly server: RedisServer;
  /** Milliseconds. */
  readonly ttl: number;
  /** Of the key of names and digests. */
  readonly keyId: string;
  readonly report: (up: boolean, cause?: string) => void;
}

const prefix = 'countersign:once:';

/** While a claim lives, all claims are made with the same key: with another one it would not be found. */
const sameKey = `
local key = redis.call('GET', KEYS[1])
if key and key ~= ARGV[1] then return {err = 'CLAIMS live that were made with another key'} end`;

/**
 * Does all that claims need. A replica that is read-only, or a server without memory or disk, takes none; one that is old, or
 * whose user may not remove a claim, would refuse the first change of one, and with it every connection.
 */
const checkScript = `${sameKey}
redis.call('SET', KEYS[2], ARGV[1], 'PX', 1000)
redis.call('SET', KEYS[2], ARGV[1], 'KEEPTTL')
if redis.call('PTTL', KEYS[2]) > 0 then redis.call('DEL', KEYS[2]) end
return 1`;

/** Returns the claim that is there: only a response with our own says that it was made. What is no text is no claim of ours. */
const claimScript = `${sameKey}
local claim = redis.pcall('GET', KEYS[2])
if type(claim) == 'table' then return {''} end
if claim then return {claim} end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[2])
return {ARGV[3]}`;

const replaceScript = `
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL') end
return 1`;

/** What becomes of a claim; without a next one it is removed. */
interface Change {
  readonly name: string;
  readonly next: string | undefined;
}

/** Of one too many, the oldest is not made: that claim stays. */
const maxChanges = 10_000;
/** Milliseconds. */
const checkInterval = 5_000;
/** Milliseconds. */
const reconnection = { initial: 100, max: 2_000 };

/**
 * Claims in Redis or Valkey. A claim is made on the connection that there is, or not at all. Only changes of claims wait for
 * the next one: they concern a claim of one request, so it does not matter when they are made.
 */
export class RedisStore implements ClaimStore {
  readonly #options: RedisStoreOptions;
  readonly #closing = new AbortController();
  #connection: RedisConnection | undefined;
  #problem = 'not connected yet';
  /** Not made yet, by claim. */
  readonly #changes = new Map<string, Change>();

  constructor(options: RedisStoreOptions) {
    this.#options = options;
  }

  /** One connection after the other, until the store is closed. @param opened the first attempt has ended */
  async stayConnected(opened: () => void): Promise<void> {
    const { server, monotonic, random, report } = this.#options;
    const backoff = new Backoff(reconnection, random);
    const { signal } = this.#closing;
    while (!signal.aborted) {
      try {
        const connection = await RedisConnection.open(server);
        await this.#check(connection);
        backoff.reset();
        report(true);
        opened();
        this.#problem = await this.#use(connection);
      } catch (error) {
        this.#problem = problemOf(error);
        opened();
      }
      if (signal.aborted) return;
      report(false, this.#problem);
      backoff.recordFailure(monotonic());
      await wait(backoff.remaining(monotonic()), undefined, { ref: false, signal }).catch(() => {});
    }
  }

  async claim(name: string, claim: string): Promise<string | undefined> {
    const { keyId, ttl } = this.#options;
    const connection = this.#connected();
    try {
      const keys = [`${prefix}key`, prefix + name];
      const stored = await connection.send('EVAL', claimScript, '2', ...keys, keyId, String(ttl), claim);
      if (Array.isArray(stored) && typeof stored[0] === 'string')
        return stored[0] === claim ? undefined : stored[0];
      throw invalid(connection);
    } catch (error) {
      // It may have been made, and nothing is sent.
      this.#keep(claim, { name, next: undefined });
      throw error;
    }
  }

  /** The claim of this name. @throws StoreUnavailable */
  async find(name: string): Promise<string | undefined> {
    const connection = this.#connected();
    const found = await connection.send('GET', prefix + name);
    if (typeof found === 'string' || found === null) return found ?? undefined;
    throw invalid(connection);
  }

  /** What the server says about itself. @throws StoreUnavailable */
  async info(): Promise<string> {
    return String(await this.#connected().send('INFO'));
  }

  /** A setting of the server; `undefined` if the user may not read it, and then the connection ends. */
  async setting(name: string): Promise<string | undefined> {
    const found = await this.#connected()
      .send('CONFIG', 'GET', name)
      .catch(() => undefined);
    return Array.isArray(found) && typeof found[1] === 'string' ? found[1] : undefined;
  }

  async replace(name: string, claim: string, next?: string): Promise<void> {
    const change = { name, next };
    this.#keep(claim, change);
    await this.#make(claim, change);
  }

  async close(): Promise<void> {
    await this.#makeAll();
    this.#closing.abort();
    this.#connection?.end('closed');
  }

  /** @returns the problem that ended it */
  async #use(connection: RedisConnection): Promise<string> {
    if (this.#closing.signal.aborted) connection.end('closed');
    this.#connection = connection;
    // They are written before any further claim.
    void this.#makeAll();
    const timer = setInterval(() => void this.#check(connection).catch(() => {}), checkInterval).unref();
    const problem = await connection.ended;
    clearInterval(timer);
    this.#connection = undefined;
    return problem;
  }

  /** A failure ends the connection. @throws StoreUnavailable */
  async #check(connection: RedisConnection): Promise<void> {
    const keys = [`${prefix}key`, `${prefix}check`];
    const result = await connection.send('EVAL', checkScript, '2', ...keys, this.#options.keyId);
    if (result !== 1) throw invalid(connection);
  }

  /** @throws StoreUnavailable */
  #connected(): RedisConnection {
    if (this.#connection === undefined) throw new StoreUnavailable(this.#problem);
    return this.#connection;
  }

  #keep(claim: string, change: Change): void {
    this.#changes.set(claim, change);
    const [oldest] = this.#changes.keys();
    if (this.#changes.size > maxChanges && oldest !== undefined) this.#changes.delete(oldest);
  }

  async #makeAll(): Promise<void> {
    await Promise.all(Array.from(this.#changes, ([claim, change]) => this.#make(claim, change)));
  }

  /** It waits for the next connection if it fails. */
  async #make(claim: string, change: Change): Promise<void> {
    const { name, next = '' } = change;
    try {
      await this.#connected().send('EVAL', replaceScript, '1', prefix + name, claim, next);
    } catch (error) {
      if (error instanceof StoreUnavailable) return;
      throw error;
    }
    if (this.#changes.get(claim) === change) this.#changes.delete(claim);
  }
}

function invalid(connection: RedisConnection): StoreUnavailable {
  connection.end('an invalid response');
  return new StoreUnavailable('an invalid response');
}

function problemOf(error: unknown): string {
  return error instanceof StoreUnavailable ? error.problem : 'unknown';
}
