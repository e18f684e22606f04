import { Refusal } from '../errors.ts';
import { sameKey } from '../keys/key.ts';
import { Preferences, usableKeys } from '../keys/ring.ts';
import type { KeyAddress, KeyRing, UsableKey } from '../keys/source.ts';
import type { KeyKind } from '../oauth1/methods.ts';
import type { Meter } from '../ops/meter.ts';

/** Where rings come from: keys/cached. */
export interface Keys {
  /** @throws Refusal `key-missing`, `key-source-unavailable` */
  take(address: KeyAddress): Promise<KeyRing>;
  /** Reads past the cache. */
  reread(address: KeyAddress): Promise<KeyRing | undefined>;
}

export interface RotationPorts {
  readonly keys: Keys;
  readonly meter: Meter;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds for which a superseded key may still be tried. */
  readonly overlap: number;
}

/** After a trial that did not help, the login's refused requests are passed on untried for so long. */
const pause = 5_000;

type Ring = readonly [UsableKey, ...UsableKey[]];

/**
 * Which version of a key to sign with, while Vault and the gateway may know different ones.
 *
 * A refusal (403) makes one request of the login try the other version; the requests refused meanwhile wait
 * for what comes of it. A trial that does not help is not repeated for {@link pause}, so a gateway that
 * refuses everything causes neither a storm of Vault reads nor a second request for each first one.
 */
export class Rotation {
  readonly #ports: RotationPorts;
  readonly #preferences = new Preferences();
  readonly #trials = new Map<string, Promise<unknown>>();
  readonly #pausedUntil = new Map<string, number>();

  constructor(ports: RotationPorts) {
    this.#ports = ports;
  }

  /** @throws Refusal `key-missing`, `key-unusable`, `key-source-unavailable` */
  async choose(address: KeyAddress, kind: KeyKind): Promise<UsableKey> {
    const ring = await this.#ports.keys.take(address);
    return this.#preferences.choose(address, this.#usable(address, ring, kind));
  }

  /**
   * Tries once more with another key than the refused one, where there is a reason to hope.
   *
   * @param send signs and sends with the key it is given
   * @param accepted whether the gateway took the key
   * @returns what `send` gave; `undefined` where nothing was tried
   */
  async retry<Reply>(
    address: KeyAddress,
    refused: UsableKey,
    send: (key: UsableKey) => Promise<Reply>,
    accepted: (reply: Reply) => boolean,
  ): Promise<Reply | undefined> {
    const name = nameOf(address, refused);
    await this.#trials.get(name);
    const chosen = await this.#chosenNow(address, refused.kind);
    if (chosen !== undefined && !sameKey(chosen, refused)) return send(chosen);
    if (this.#trials.has(name) || this.#isPaused(name)) return undefined;
    const trial = this.#try(name, address, refused, send, accepted);
    // Those who wait learn the result from the preference; a failure belongs to the one who tried.
    this.#trials.set(name, trial.then(noMatter, noMatter));
    return trial;
  }

  /**
   * For a request that may not be sent again: lets the next one find a newer version, without waiting for the
   * cache to age.
   */
  noteRefusal(address: KeyAddress, refused: UsableKey): void {
    const name = nameOf(address, refused);
    if (this.#trials.has(name) || this.#isPaused(name)) return;
    this.#pause(name);
    void this.#otherKeys(address, refused);
  }

  async #try<Reply>(
    name: string,
    address: KeyAddress,
    refused: UsableKey,
    send: (key: UsableKey) => Promise<Reply>,
    accepted: (reply: Reply) => boolean,
  ): Promise<Reply | undefined> {
    let helped = false;
    try {
      const { keys, other } = (await this.#otherKeys(address, refused)) ?? {};
      if (keys === undefined || other === undefined) return undefined;
      const reply = await send(other);
      helped = accepted(reply);
      if (helped) {
        this.#preferences.accepted(address, keys, other);
        this.#ports.meter.fellBack(address, other.kind, other.version > refused.version ? 'newer' : 'older');
      }
      return reply;
    } finally {
      if (!helped) this.#pause(name);
      this.#trials.delete(name);
    }
  }

  /** Reads the ring past the cache: all its keys, and one that is not the refused one. */
  async #otherKeys(
    address: KeyAddress,
    refused: UsableKey,
  ): Promise<{ keys: Ring; other: UsableKey | undefined } | undefined> {
    try {
      const ring = await this.#ports.keys.reread(address);
      if (ring === undefined) return undefined;
      const keys = this.#usable(address, ring, refused.kind);
      return { keys, other: keys.find((key) => !sameKey(key, refused)) };
    } catch (error) {
      return this.#withoutKeys(address, error);
    }
  }

  /** The gateway has answered 403 already: a key that has gone meanwhile must not hide that answer. */
  async #chosenNow(address: KeyAddress, kind: KeyKind): Promise<UsableKey | undefined> {
    try {
      return await this.choose(address, kind);
    } catch (error) {
      return this.#withoutKeys(address, error);
    }
  }

  #withoutKeys(address: KeyAddress, error: unknown): undefined {
    if (!(error instanceof Refusal)) throw error;
    this.#ports.meter.keyProblem(`after a 403 no other key could be tried: ${error.detail}`, address);
  }

  #usable(address: KeyAddress, ring: KeyRing, kind: KeyKind): Ring {
    return usableKeys(address, ring, kind, this.#ports.clock(), this.#ports.overlap);
  }

  #isPaused(name: string): boolean {
    return this.#ports.clock() < (this.#pausedUntil.get(name) ?? 0);
  }

  #pause(name: string): void {
    this.#pausedUntil.set(name, this.#ports.clock() + pause);
  }
}

function nameOf(address: KeyAddress, key: UsableKey): string {
  return `${address.environment}/${address.login}/${key.kind}`;
}

function noMatter(): void {}
