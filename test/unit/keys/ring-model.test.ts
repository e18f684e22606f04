import { expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { SourceUnavailable } from '../../../src/keys/errors.ts';
import { parseKeys } from '../../../src/keys/key.ts';
import { KeyCache } from '../../../src/keys/key-cache.ts';
import { distinctKeys, type KeyRing, mayBeUsed, type UsableKey } from '../../../src/keys/ring.ts';
import { identityOf, type KeyVersion, readRing } from '../../../src/keys/vault/read-ring.ts';
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
  #forgotten: Stored[] = [];
  #reads = 0;
  /** Whether a look reads the ring, whatever its current version is: a refresh. */
  #readsAll = false;
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
        if (this.#readsAll) return 'another version';
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
    if (this.#versions.length > 0) this.#forgotten = this.#versions;
    this.#versions = [];
  }

  /** As with a backup, unless there are new versions. */
  remember(): void {
    if (this.#versions.length === 0) this.#versions = this.#forgotten;
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
    this.#readsAll = work === 'refresh';
    const ring = await this.#cache.look(acme).catch(() => undefined);
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

  async #read(number = this.#versions.at(-1)?.number): Promise<KeyVersion | undefined> {
    this.#reads += 1;
    if (this.failing) throw new SourceUnavailable(acme, new Error('failing'), 'down');
    const stored = this.#versions.find((one) => one.number === number);
    if (stored === undefined) return undefined;
    const about = { version: stored.number, createdAt: new Date(stored.createdAt) };
    const fields = stored.key === undefined ? { note: 'x' } : { control_key: stored.key };
    return stored.deleted ? { ...about, keys: [] } : { ...about, fields, keys: parseKeys(fields, about) };
  }
}

/** What happens, in words that a counterexample shows. */
type Step =
  | readonly ['write', Key]
  | readonly ['accept' | 'delete' | 'undelete' | 'keep versions' | 'wait and refresh', number]
  | readonly ['failing', boolean]
  | readonly ['delete all' | 'forget' | 'remember' | 'refresh' | 'look'];

async function run(world: World, step: Step): Promise<void> {
  switch (step[0]) {
    case 'write':
      return world.write(step[1]);
    case 'accept':
      return world.accept(step[1]);
    case 'delete':
    case 'undelete':
      return world.setDeleted(step[1], step[0] === 'delete');
    case 'delete all':
      return world.deleteAll();
    case 'forget':
      return world.forget();
    case 'remember':
      return world.remember();
    case 'keep versions':
      world.maxVersions = step[1];
      return;
    case 'failing':
      world.failing = step[1];
      return;
    case 'refresh':
    case 'look':
      return world.read(step[0]);
    case 'wait and refresh':
      world.now += step[1];
      return world.read('refresh');
  }
}

const only = fc.constant;
const back = fc.nat({ max: 4 });
const times = fc.constantFrom(1, minute, hour, 5 * hour, 11 * hour);
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.tuple(only('write'), fc.constantFrom<Key>('a', 'b', 'c', 'a', 'b', '', undefined)),
  },
  { weight: 4, arbitrary: fc.tuple(only('accept'), fc.nat({ max: 2 })) },
  { weight: 3, arbitrary: fc.tuple(only('delete'), back) },
  { weight: 1, arbitrary: fc.tuple(only('undelete'), back) },
  { weight: 3, arbitrary: fc.constantFrom<Step>(['delete all'], ['forget'], ['remember']) },
  { weight: 1, arbitrary: fc.tuple(only('keep versions'), fc.constantFrom(1, 2, 10)) },
  { weight: 2, arbitrary: fc.tuple(only('failing'), fc.boolean()) },
  { weight: 8, arbitrary: fc.constantFrom<Step>(['refresh'], ['look']) },
  { weight: 6, arbitrary: fc.tuple(only('wait and refresh'), times) },
);

/** Of two versions with the accepted key, the one that is left was read last, before the ring was cached no more. */
const twoVersions: readonly Step[] = [
  ['write', 'b'],
  ['refresh'],
  ['write', 'b'],
  ['accept', 0],
  ['write', 'a'],
  ['refresh'],
  ['write', 'a'],
  ['delete all'],
  ['undelete', 2],
  ['failing', true],
  ['wait and refresh', 11 * hour],
  ['wait and refresh', 11 * hour],
  ['failing', false],
  ['wait and refresh', 5 * hour],
];

it('keeps the key that the gateway accepted last, and nothing that is deleted or too old', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 60, size: 'max' }), async (steps) => {
      const world = new World();
      for (const step of steps) await run(world, step);
      expect(world.violations).toEqual([]);
    }),
    { numRuns: 1000, examples: [[[...twoVersions]]] },
  );
});
