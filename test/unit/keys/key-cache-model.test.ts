import { expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { KeyCache } from '../../../src/keys/key-cache.ts';
import type { KeyReading, NoKeys } from '../../../src/keys/key-source.ts';
import { type LoginRef, loginRefString } from '../../../src/keys/login-ref.ts';
import { type KeyRing, ringIn } from '../../../src/keys/ring.ts';
import { keyOf, RecordedEvents, refOf, ringOf, ScriptedSource, settled } from './scripted-source.ts';

const second = 1000;
const hour = 3_600_000;
const settings = { ttl: 60 * second, staleIfError: 12 * hour, negativeTtl: 10 * second, maxEntries: 4 };
const addresses = ['a', 'b', 'c', 'd', 'e', 'f'].map(refOf);

/** Result of a read of the source; the key is `none` if the login had none. */
interface Result {
  readonly key: string;
  readonly startedAt: number;
  readonly endedAt: number;
}

/** The cache between a source and requests, with a record of all responses of the source. */
class World {
  now = 0;
  readonly source = new ScriptedSource();
  readonly results = new Map<string, Result>();
  readonly violations: string[] = [];
  unsettled = 0;
  #keys = 0;
  readonly #cache: KeyCache;

  constructor(random: () => number) {
    this.source.paused = true;
    const source = {
      read: (login: LoginRef) => this.#read(login),
      // As if it changed each time: a look then reads the ring.
      readCurrent: async () => 'another version',
      start: () => undefined,
      ready: () => true,
      stop: () => undefined,
    };
    const events = new RecordedEvents();
    this.#cache = new KeyCache(source, settings, {
      monotonic: () => this.now,
      random,
      events,
      sourceName: 'model',
    });
  }

  change(login: LoginRef): void {
    this.#keys += 1;
    this.source.set(login, ringOf(`key-${this.#keys}`, this.#keys));
  }

  get(login: LoginRef): void {
    this.#expectResult(login, this.#cache.get(login));
  }

  refresh(login: LoginRef): void {
    this.#expectResult(login, this.#cache.look(login));
  }

  async #read(login: LoginRef): Promise<KeyReading | NoKeys> {
    const startedAt = this.now;
    const ring = await this.source.read(login);
    this.results.set(loginRefString(login), { key: keyOf(ringIn(ring)), startedAt, endedAt: this.now });
    return ring;
  }

  #expectResult(login: LoginRef, result: Promise<KeyRing | undefined>): void {
    const requestedAt = this.now;
    this.unsettled += 1;
    result
      .then((ring) => this.#checkServed(login, keyOf(ring), requestedAt))
      .catch((error: { reason?: string }) => this.#checkFailed(login, error.reason, requestedAt))
      .finally(() => {
        this.unsettled -= 1;
      });
  }

  #checkServed(login: LoginRef, key: string, requestedAt: number): void {
    const last = this.results.get(loginRefString(login));
    if (last === undefined) this.violations.push('served what the source never said');
    else if (key !== last.key) this.violations.push(`served ${key} after the source said ${last.key}`);
    else if (this.now - last.endedAt >= settings.staleIfError)
      this.violations.push('served a ring that is too old');
    else if (key === 'none' && last.endedAt < requestedAt - settings.negativeTtl)
      this.violations.push('called missing');
  }

  #checkFailed(login: LoginRef, reason: string | undefined, requestedAt: number): void {
    const last = this.results.get(loginRefString(login));
    if (reason === 'key-missing') return this.#checkServed(login, 'none', requestedAt);
    if (reason !== 'key-source-unavailable') this.violations.push(`failed with ${reason}`);
    const usable =
      last !== undefined && last.key !== 'none' && this.now - last.startedAt < settings.staleIfError;
    if (usable && !this.#mayBeEvicted()) this.violations.push('failed although a ring was cached');
  }

  /** With more logins than entries, a ring may have been evicted. */
  #mayBeEvicted(): boolean {
    return this.results.size > settings.maxEntries;
  }
}

type Step = (world: World) => void | Promise<void>;
const anyAddress = fc.constantFrom(...addresses);
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: anyAddress.map(
      (login): Step =>
        (world) =>
          world.get(login),
    ),
  },
  {
    weight: 2,
    arbitrary: anyAddress.map(
      (login): Step =>
        (world) =>
          world.refresh(login),
    ),
  },
  {
    weight: 3,
    arbitrary: anyAddress.map(
      (login): Step =>
        (world) =>
          world.change(login),
    ),
  },
  {
    weight: 1,
    arbitrary: anyAddress.map(
      (login): Step =>
        (world) =>
          world.source.set(login, undefined),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.boolean().map(
      (down): Step =>
        (world) => {
          world.source.down = down;
        },
    ),
  },
  {
    weight: 5,
    arbitrary: fc.integer({ min: 1, max: 8 }).map(
      (count): Step =>
        (world) =>
          world.source.release(count),
    ),
  },
  {
    weight: 5,
    arbitrary: fc.constantFrom(1, second, 10 * second, 60 * second, hour, 12 * hour).map(
      (time): Step =>
        (world) => {
          world.now += time;
        },
    ),
  },
);

it('always serves the last ring that was read, and none that is too old', async () => {
  const steps = fc.array(step, { maxLength: 80, size: 'max' });
  await fc.assert(
    fc.asyncProperty(steps, fc.constantFrom(0, 0.5, 0.999), async (steps, random) => {
      const world = new World(() => random);
      for (const run of steps) {
        await run(world);
        await settled();
      }
      world.source.down = false;
      while (world.source.running.length > 0) await world.source.release();
      expect(world.violations).toEqual([]);
      expect(world.unsettled).toBe(0);
      expect(world.source.overlapped).toBe(false);
      expect(world.source.mostRunning).toBeLessThanOrEqual(8);
    }),
    { numRuns: 300 },
  );
});
