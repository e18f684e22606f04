import { expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { SourceUnavailable } from '../../../src/keys/errors.ts';
import { KeyCache } from '../../../src/keys/key-cache.ts';
import type { KeyRing, UsableKey } from '../../../src/keys/key-source.ts';
import { distinctKeys, mayBeUsed } from '../../../src/keys/ring.ts';
import type { Version } from '../../../src/keys/vault/kv2.ts';
import { identityOf, readRing } from '../../../src/keys/vault/read-ring.ts';
import { acme, keyOf, RecordedEvents } from './scripted-source.ts';

const minute = 60_000;
const hour = 60 * minute;
const grace = 24 * hour;
const staleIfError = 12 * hour;
const settings = { ttl: minute, staleIfError, negativeTtl: minute, maxEntries: 4 };

/** `undefined`: the version lacks the field. An empty key cannot be used. */
type Key = 'a' | 'b' | 'c' | '' | undefined;

interface Stored {
  readonly number: number;
  readonly createdAt: number;
  readonly key: Key;
  deleted: boolean;
}

/** The key that the gateway accepted last, in the version in which it was last read. */
interface Accepted {
  readonly key: string;
  readonly stored: Stored;
  readonly readAt: number;
}

/** One secret of a Vault with the cache in front of it, and what must hold after each read. */
class World {
  now = 1e12;
  failing = false;
  maxVersions = 10;
  /** Oldest first; empty: Vault does not know the login. */
  #versions: Stored[] = [];
  #reads = 0;
  /** When the ring was last read. */
  #readAt = Number.NEGATIVE_INFINITY;
  /** Absent while Vault does not have the key. */
  #accepted: Accepted | undefined;
  #acceptedKey: string | undefined;
  /** When each key was last read. */
  readonly #liveAt = new Map<string, number>();
  readonly violations: string[] = [];
  readonly #cache = new KeyCache(
    {
      read: (_login, known = []) => {
        const gracePeriodBegan = this.now - grace;
        return readRing((number) => this.#read(number), { gracePeriodBegan, known, isSearch: false });
      },
      readCurrent: async () => {
        const current = await this.#read();
        return current === undefined ? 'not-found' : identityOf(current);
      },
      start: () => undefined,
      ready: () => true,
      stop: () => undefined,
    },
    settings,
    {
      monotonic: () => this.now,
      random: () => 0,
      events: new RecordedEvents(),
      sourceName: 'model',
      setTimer: () => () => undefined,
    },
  );

  write(key: Key): void {
    this.now += 1000;
    const number = (this.#versions.at(-1)?.number ?? 0) + 1;
    this.#versions.push({ number, createdAt: this.now, key, deleted: false });
    this.#versions = this.#versions.slice(-this.maxVersions);
  }

  /** Deletes or undeletes a version, counted from the newest. */
  setDeleted(back: number, deleted: boolean): void {
    const stored = this.#versions.at(-1 - back);
    if (stored !== undefined) stored.deleted = deleted;
  }

  deleteAll(): void {
    for (const stored of this.#versions) stored.deleted = true;
  }

  /** With the metadata, or with the mount. */
  forget(): void {
    this.#versions = [];
  }

  /** The gateway accepts one of the keys in use, counted from the newest, if Vault still has it. */
  accept(at: number): void {
    const key = this.#usable()[at];
    const stored = key && this.#storedOf(key);
    if (key === undefined || stored === undefined) return;
    this.#cache.keep(acme, key);
    this.#acceptedKey = keyOf([key]);
    this.#accepted = { key: this.#acceptedKey, stored, readAt: this.#readAt };
  }

  /** @param work a refresh or a look */
  async read(work: 'refresh' | 'look'): Promise<void> {
    const before = this.#cache.cached(acme);
    this.#reads = 0;
    const ring = await this.#cache[work](acme).catch(() => undefined);
    if (this.#reads > 13) this.violations.push(`${this.#reads} reads`);
    const isKnown = this.#versions.length > 0 && !this.failing;
    if (isKnown && this.#versions.every(({ deleted }) => deleted)) {
      const isNoticed = ring === undefined;
      if (isNoticed) this.#acceptedKey = this.#accepted = undefined;
      // A look does not read older versions.
      else if (work === 'refresh') this.violations.push('a login whose versions were all deleted has keys');
    } else if (isKnown) this.#check(work === 'refresh' || ring !== before);
    else if (before !== undefined && ring !== before && this.now - this.#readAt < staleIfError)
      this.violations.push('a failure removed cached keys');
  }

  /** @param isRead whether the ring was read, not only its current version */
  #check(isRead: boolean): void {
    if (isRead) {
      this.#readAt = this.now;
      for (const { key = '' } of this.#live()) this.#liveAt.set(key, this.now);
    }
    const usable = this.#usable();
    const names = usable.map((key) => keyOf([key]));
    const [newest] = this.#live()
      .filter(({ key }) => key !== '' && key !== undefined)
      .toReversed();
    const isCurrent = newest !== undefined && newest === this.#versions.at(-1);
    if (isCurrent && names[0] !== newest.key) this.violations.push(`${names[0]} instead of the newest key`);
    this.#checkAccepted(names, isRead);
    // What was deleted is a new key if it comes back.
    if (this.#cache.cached(acme) === undefined) this.#acceptedKey = this.#accepted = undefined;
    for (const name of names) {
      if (!isRead || name === this.#acceptedKey) continue;
      if (!this.#isInGrace(name) && !this.#isGoneOnly(name))
        this.violations.push(`${name} is deleted, or was superseded too long ago`);
    }
  }

  #checkAccepted(names: readonly string[], isRead: boolean): void {
    const again = isRead ? this.#usable().find((one) => keyOf([one]) === this.#acceptedKey) : undefined;
    const restored = again && this.#storedOf(again);
    if (again !== undefined && restored !== undefined)
      this.#accepted ??= { key: keyOf([again]), stored: restored, readAt: this.now };
    if (this.#accepted === undefined) return;
    const { key, stored, readAt } = this.#accepted;
    const isStored = this.#versions.includes(stored);
    const isReadable = isStored && !stored.deleted;
    const isUsed = names.includes(key);
    if (isReadable && !isUsed) this.violations.push(`the accepted ${key} was dropped`);
    if (!isRead) return;
    const elsewhere = this.#live().find((one) => one.key === key);
    if (isStored && stored.deleted && isUsed && elsewhere === undefined)
      this.violations.push(`the deleted ${key} is used`);
    const isTooOld = this.now - readAt >= staleIfError;
    // What deletes the newest version stops a login without other keys.
    const mayStop = this.#versions.at(-1)?.deleted === true && !isUsed;
    if (!isStored && elsewhere === undefined && isUsed === isTooOld && !mayStop)
      this.violations.push(`the accepted ${key}, which is gone, is ${isUsed ? '' : 'not '}used`);
    const used = this.#usable().find((one) => keyOf([one]) === key);
    const held = used && this.#storedOf(used);
    if (!isUsed) this.#accepted = undefined;
    else if (held !== undefined) this.#accepted = { key, stored: held, readAt: this.now };
  }

  /** Whether a version has the key, and none that supersedes it was written before the grace period. */
  #isInGrace(name: string): boolean {
    return this.#live().some(({ key, number }) => {
      const successor = this.#versions.find(
        (one) => one.number > number && (one.deleted || (one.key !== '' && one.key !== undefined)),
      );
      return key === name && (successor === undefined || this.now - successor.createdAt <= grace);
    });
  }

  /** Whether Vault has it no more, and had no key instead of it. */
  #isGoneOnly(name: string): boolean {
    const isStored = this.#versions.some(({ key }) => key === name);
    const hasUsable = this.#versions.some((one) => one.deleted || (one.key !== '' && one.key !== undefined));
    return !isStored && !hasUsable && this.now - (this.#liveAt.get(name) ?? 0) < staleIfError;
  }

  #live(): Stored[] {
    return this.#versions.filter(({ deleted }) => !deleted);
  }

  #usable(): UsableKey[] {
    const ring: KeyRing = this.#cache.cached(acme) ?? [];
    return distinctKeys(ring.filter((entry) => mayBeUsed(entry, this.now, grace)));
  }

  #storedOf(key: UsableKey): Stored | undefined {
    return this.#live().find(
      (one) =>
        one.number === key.version && one.key === keyOf([key]) && one.createdAt === key.createdAt?.getTime(),
    );
  }

  async #read(number = this.#versions.at(-1)?.number): Promise<Version | undefined> {
    this.#reads += 1;
    if (this.failing) throw new SourceUnavailable(acme, new Error('failing'), 'down');
    const stored = this.#versions.find((one) => one.number === number);
    if (stored === undefined) return undefined;
    const about = { version: stored.number, createdAt: new Date(stored.createdAt) };
    const fields = stored.key === undefined ? { note: 'x' } : { control_key: stored.key };
    return stored.deleted ? about : { ...about, fields };
  }
}

type Step = (world: World) => Promise<void> | void;

const anyKey = fc.constantFrom<Key>('a', 'b', 'c', 'a', 'b', '', undefined);
const back = fc.nat({ max: 4 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: anyKey.map(
      (key): Step =>
        (world) =>
          world.write(key),
    ),
  },
  {
    weight: 4,
    arbitrary: fc.nat({ max: 2 }).map(
      (at): Step =>
        (world) =>
          world.accept(at),
    ),
  },
  {
    weight: 3,
    arbitrary: back.map(
      (at): Step =>
        (world) =>
          world.setDeleted(at, true),
    ),
  },
  {
    weight: 1,
    arbitrary: back.map(
      (at): Step =>
        (world) =>
          world.setDeleted(at, false),
    ),
  },
  { weight: 1, arbitrary: fc.constant<Step>((world) => world.deleteAll()) },
  { weight: 1, arbitrary: fc.constant<Step>((world) => world.forget()) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(1, 2, 10).map(
      (count): Step =>
        (world) => {
          world.maxVersions = count;
        },
    ),
  },
  {
    weight: 2,
    arbitrary: fc.boolean().map(
      (failing): Step =>
        (world) => {
          world.failing = failing;
        },
    ),
  },
  {
    weight: 8,
    arbitrary: fc.constantFrom<Step>(
      (world) => world.read('refresh'),
      (world) => world.read('look'),
    ),
  },
  {
    weight: 6,
    arbitrary: fc.constantFrom(1, minute, hour, 5 * hour, 11 * hour).map(
      (time): Step =>
        async (world) => {
          world.now += time;
          await world.read('refresh');
        },
    ),
  },
);

it('keeps the key that the gateway accepted last, and nothing that is deleted or too old', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
      const world = new World();
      for (const run of steps) {
        await run(world);
        expect(world.violations).toEqual([]);
      }
    }),
    { numRuns: 1000, seed: 1 },
  );
});
