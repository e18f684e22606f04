import { SourceUnavailable } from '../../src/keys/errors.ts';
import { parseKeys } from '../../src/keys/key.ts';
import type { KeySource } from '../../src/keys/key-source.ts';
import type { LoginRef } from '../../src/keys/login-ref.ts';
import { maxKeys, type UsableKey } from '../../src/keys/ring.ts';
import { type KeyVersion, readRing } from '../../src/keys/vault/read-ring.ts';
import { reveal } from '../../src/secret.ts';
import { tableSettings } from '../support/fixed-keys.ts';
import type { Random } from '../support/random.ts';
import type { VirtualClock } from '../support/virtual-clock.ts';
import type { Schedule } from './schedule.ts';

/** Milliseconds until a read without a response fails, as `keys.vault.timeout`. */
const readTimeout = 5_000;

/** Why reads do not work: no connection, no response, no permission, no such mount; or each takes 0.9 s. */
export type Illness = 'down' | 'hangs' | 'denies' | 'lost' | 'slow';

interface Stored {
  readonly name: string;
  readonly version: KeyVersion;
  deletedAt: number | undefined;
}

/** The name of a key is its secret. */
export function nameOf({ key }: UsableKey): string {
  return key.kind === 'control_key' ? reveal(key.secret) : '';
}

/** Vault's KV version 2 with a control key for each login. */
export class Vault {
  readonly #time: VirtualClock;
  readonly #random: Random;
  readonly #settings: Pick<Schedule, 'kept' | 'vaultLatency'>;
  readonly #secrets = new Map<string, Stored[]>();
  #illness: Illness | undefined;
  #wellAt = Number.NEGATIVE_INFINITY;
  #recovery = Promise.withResolvers<void>();

  constructor(time: VirtualClock, random: Random, settings: Pick<Schedule, 'kept' | 'vaultLatency'>) {
    this.#time = time;
    this.#random = random;
    this.#settings = settings;
  }

  /** Whether reads have worked for so many milliseconds. */
  isWellFor(milliseconds: number): boolean {
    return this.#illness === undefined && this.#time.now - this.#wellAt > milliseconds;
  }

  write(login: string, name: string): void {
    const stored = this.#secrets.get(login) ?? [];
    const about = { version: stored.length + 1, createdAt: new Date(this.#time.clock()) };
    const fields = { control_key: name };
    const version = { ...about, fields, keys: parseKeys(fields, about) };
    this.#secrets.set(login, [...stored, { name, version, deletedAt: undefined }]);
  }

  /** All versions with this key. */
  delete(login: string, name: string): void {
    for (const stored of this.#secrets.get(login) ?? [])
      if (stored.name === name) stored.deletedAt ??= this.#time.now;
  }

  fall(illness: Illness): void {
    this.#illness = illness;
    this.#recovery = Promise.withResolvers();
  }

  recover(): void {
    this.#illness = undefined;
    this.#wellAt = this.#time.now;
    this.#recovery.resolve();
  }

  /** The keys that a first read finds now, newest first. */
  keysOf(login: string): readonly string[] {
    const live = this.#live(login).filter(({ deletedAt }) => deletedAt === undefined);
    return [...new Set(live.map(({ name }) => name).toReversed())].slice(0, maxKeys);
  }

  /** Since when every version with this key is deleted; infinity: not all are. */
  deletedSince(login: string, name: string): number {
    const alike = (this.#secrets.get(login) ?? []).filter((one) => one.name === name);
    return Math.max(...alike.map(({ deletedAt = Number.POSITIVE_INFINITY }) => deletedAt));
  }

  readonly read: KeySource['read'] = (ref, known = [], accepted = []) => {
    const gracePeriodBegan = this.#time.clock() - tableSettings.rotationGracePeriod;
    return readRing((version) => this.#readVersion(ref, version), { gracePeriodBegan, known, accepted });
  };

  async #readVersion(ref: LoginRef, number?: number): Promise<KeyVersion | undefined> {
    await this.#time.wait(this.#illness === 'slow' ? 900 : this.#random.int(1, this.#settings.vaultLatency));
    if (this.#illness === 'hangs') await Promise.race([this.#recovery.promise, this.#time.wait(readTimeout)]);
    if (this.#illness === 'hangs' || this.#illness === 'down')
      throw new SourceUnavailable(ref, new Error('no response'), 'down');
    if (this.#illness === 'denies') throw new SourceUnavailable(ref, new Error('denied'), 'denied');
    if (this.#illness === 'lost') return undefined;
    const live = this.#live(ref.login);
    const stored =
      number === undefined ? live.at(-1) : live.find(({ version }) => version.version === number);
    if (stored?.deletedAt === undefined) return stored?.version;
    const { version, createdAt } = stored.version;
    return { version, createdAt, keys: [] };
  }

  #live(login: string): readonly Stored[] {
    return this.#secrets.get(login)?.slice(-this.#settings.kept) ?? [];
  }
}
