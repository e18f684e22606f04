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
  readonly meter: Pick<Meter, 'fellBack' | 'keyProblem'>;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  /** Milliseconds for which a superseded key may still be tried. */
  readonly overlap: number;
}

/** Milliseconds between trials of a login's other key that do not help, and between looks for a newer one. */
const pause = 5_000;

type Ring = readonly [UsableKey, ...UsableKey[]];

/**
 * Which version of a key to sign with, while Vault and the gateway may know different ones.
 *
 * A refusal (403) makes one request of the login try the other version; the requests refused meanwhile wait
 * for what comes of it. A trial that does not help is not repeated for {@link pause}, so a gateway that
 * refuses everything causes neither a storm of Vault reads nor a second request for each first one: in that
 * time at most one extra request and two readings of the ring for each login and kind of key.
 */
export class Rotation {
  readonly #ports: RotationPorts;
  readonly #preferences = new Preferences();
  readonly #trials = new Map<string, Promise<unknown>>();
  /** By name, when a trial may be made again, and when a look. */
  readonly #nextTrial = new Map<string, number>();
  readonly #nextLook = new Map<string, number>();

  constructor(ports: RotationPorts) {
    this.#ports = ports;
  }

  /**
   * @param manner `careful` for a request that may not be sent again
   * @throws Refusal `key-missing`, `key-unusable`, `key-source-unavailable`
   */
  async choose(address: KeyAddress, kind: KeyKind, manner: 'bold' | 'careful' = 'bold'): Promise<UsableKey> {
    const ring = await this.#ports.keys.take(address);
    return this.#preferences.choose(address, this.#usable(address, ring, kind), manner);
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
    do {
      await this.#trials.get(name);
      const chosen = await this.#chosenNow(address, refused.kind);
      if (chosen !== undefined && !sameKey(chosen, refused)) return send(chosen);
      // Of several that were refused together, another may have begun meanwhile.
    } while (this.#trials.has(name));
    if (this.#isBefore(this.#nextTrial, name)) return undefined;
    const trial = this.#try(name, address, refused, send, accepted);
    // Those who wait learn the result from the preference; a failure belongs to the one who tried.
    this.#trials.set(name, trial.then(noMatter, noMatter));
    return trial;
  }

  /** The gateway took a request signed with this key. */
  noteAcceptance(address: KeyAddress, key: UsableKey): void {
    this.#preferences.taken(address, key);
  }

  /**
   * For a request that may not be sent again: the next one is signed with another version where there is one,
   * or finds a newer one without waiting for the cache to age. Keeps no other request from a trial.
   */
  noteRefusal(address: KeyAddress, refused: UsableKey): void {
    this.#preferences.doubted(address, refused);
    const name = nameOf(address, refused);
    const lookedAnyhow = this.#trials.has(name) || this.#isBefore(this.#nextTrial, name);
    if (lookedAnyhow || this.#isBefore(this.#nextLook, name)) return;
    this.#pause(this.#nextLook, name);
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
      } else {
        this.#preferences.triedInVain(address, other);
      }
      return reply;
    } finally {
      if (!helped) this.#pause(this.#nextTrial, name);
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
      return { keys, other: this.#preferences.instead(address, keys, refused) };
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

  #isBefore(next: ReadonlyMap<string, number>, name: string): boolean {
    return this.#ports.monotonic() < (next.get(name) ?? 0);
  }

  #pause(next: Map<string, number>, name: string): void {
    next.set(name, this.#ports.monotonic() + pause);
  }
}

function nameOf(address: KeyAddress, key: UsableKey): string {
  return `${address.environment}/${address.login}/${key.kind}`;
}

function noMatter(): void {}
