import { expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { KeyCache } from '../../../src/keys/key-cache.ts';
import type { KeyRing, LoginRef } from '../../../src/keys/key-source.ts';
import { loginRefString } from '../../../src/keys/login-ref.ts';
import { addressOf, keyOf, RecordedEvents, ringOf, ScriptedSource, settled } from './scripted-source.ts';

const second = 1000;
const hour = 3_600_000;
const settings = { ttl: 60 * second, staleIfError: 12 * hour, negativeTtl: 10 * second, maxEntries: 4 };
const addresses = ['a', 'b', 'c', 'd', 'e', 'f'].map(addressOf);

/** What a read of the source ended with; its key is `none` where the login had none. */
interface Answer {
  readonly key: string;
  readonly begunAt: number;
  readonly endedAt: number;
}

/** The cache between a source and requests, with a note of every answer the source gave. */
class World {
  now = 0;
  readonly source = new ScriptedSource();
  readonly answers = new Map<string, Answer>();
  readonly violations: string[] = [];
  unsettled = 0;
  #keys = 0;
  readonly #cache: KeyCache;

  constructor(random: () => number) {
    this.source.paused = true;
    const source = {
      read: (address: LoginRef) => this.#read(address),
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

  change(address: LoginRef): void {
    this.#keys += 1;
    this.source.set(address, ringOf(`key-${this.#keys}`, this.#keys));
  }

  take(address: LoginRef): void {
    this.#expectAnswer(address, this.#cache.get(address));
  }

  reread(address: LoginRef): void {
    this.#expectAnswer(address, this.#cache.refresh(address));
  }

  async #read(address: LoginRef): Promise<KeyRing | undefined> {
    const begunAt = this.now;
    const ring = await this.source.read(address);
    this.answers.set(loginRefString(address), { key: keyOf(ring), begunAt, endedAt: this.now });
    return ring;
  }

  #expectAnswer(address: LoginRef, result: Promise<KeyRing | undefined>): void {
    const askedAt = this.now;
    this.unsettled += 1;
    result
      .then((ring) => this.#checkServed(address, keyOf(ring), askedAt))
      .catch((error: { reason?: string }) => this.#checkRefused(address, error.reason, askedAt))
      .finally(() => {
        this.unsettled -= 1;
      });
  }

  #checkServed(address: LoginRef, key: string, askedAt: number): void {
    const last = this.answers.get(loginRefString(address));
    if (last === undefined) this.violations.push('served what the source never said');
    else if (key !== last.key) this.violations.push(`served ${key} after the source said ${last.key}`);
    else if (this.now - last.endedAt >= settings.staleIfError)
      this.violations.push('served a ring that is too old');
    else if (key === 'none' && last.endedAt < askedAt - settings.negativeTtl)
      this.violations.push('called missing');
  }

  #checkRefused(address: LoginRef, reason: string | undefined, askedAt: number): void {
    const last = this.answers.get(loginRefString(address));
    if (reason === 'key-missing') return this.#checkServed(address, 'none', askedAt);
    if (reason !== 'key-source-unavailable') this.violations.push(`refused as ${reason}`);
    const usable =
      last !== undefined && last.key !== 'none' && this.now - last.begunAt < settings.staleIfError;
    if (usable && !this.#mayBeEvicted()) this.violations.push('refused though a ring was held');
  }

  /** With more logins than entries a ring may have had to go. */
  #mayBeEvicted(): boolean {
    return this.answers.size > settings.maxEntries;
  }
}

type Step = (world: World) => void | Promise<void>;
const anyAddress = fc.constantFrom(...addresses);
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: anyAddress.map(
      (address): Step =>
        (world) =>
          world.take(address),
    ),
  },
  {
    weight: 2,
    arbitrary: anyAddress.map(
      (address): Step =>
        (world) =>
          world.reread(address),
    ),
  },
  {
    weight: 3,
    arbitrary: anyAddress.map(
      (address): Step =>
        (world) =>
          world.change(address),
    ),
  },
  {
    weight: 1,
    arbitrary: anyAddress.map(
      (address): Step =>
        (world) =>
          world.source.set(address, undefined),
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
          world.source.letGo(count),
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
      while (world.source.running.length > 0) await world.source.letGo();
      expect(world.violations).toEqual([]);
      expect(world.unsettled).toBe(0);
      expect(world.source.overlapped).toBe(false);
      expect(world.source.mostRunning).toBeLessThanOrEqual(8);
    }),
    { numRuns: 300 },
  );
});
