import { Refusal } from '../errors.ts';
import type { KeyKind } from '../oauth1/methods.ts';
import { sameKey } from './key.ts';
import type { KeyAddress, KeyRing, UsableKey } from './source.ts';

/**
 * The distinct keys of one kind that may be used now, newest first: the current one, and those superseded
 * within the overlap window. Keys that cannot be parsed are passed over while an older one can be used.
 *
 * A new version of the secret may change only one kind of key, so equal keys of several versions count once,
 * under their newest version.
 *
 * @param now milliseconds since 1970
 * @param overlap milliseconds
 * @throws Refusal `key-missing`, `key-unusable`; the text names login and version, never content.
 */
export function usableKeys(
  address: KeyAddress,
  ring: KeyRing,
  kind: KeyKind,
  now: number,
  overlap: number,
): readonly [UsableKey, ...UsableKey[]] {
  const ofKind = ring.filter(
    (entry) =>
      entry.kind === kind &&
      (entry.supersededAt === undefined || now - entry.supersededAt.getTime() <= overlap),
  );
  const usable = ofKind.filter((entry): entry is UsableKey => 'key' in entry);
  const [newest, ...others] = usable.filter(
    (entry, index) => !usable.slice(0, index).some((newer) => sameKey(newer, entry)),
  );
  if (newest !== undefined) return [newest, ...others];
  const broken = ofKind.find((entry) => 'problem' in entry);
  const name = `login "${address.login}" in environment "${address.environment}"`;
  if (broken !== undefined && 'problem' in broken) {
    throw new Refusal('key-unusable', `Version ${broken.version} of ${name}: ${broken.problem}.`);
  }
  const field =
    kind === 'control_key' ? 'control key (field control_key)' : 'RSA private key (field private_key)';
  throw new Refusal('key-missing', `There is no ${field} for ${name}. Have the platform team add it.`);
}

interface Preference {
  /** The newest key when the preference was made: with another one in its place the preference is over. */
  readonly newest: UsableKey;
  readonly accepted: UsableKey;
}

/** Remembers, per login and kind of key, the version that the gateway accepted after refusing the newest. */
export class Preferences {
  readonly #preferences = new Map<string, Preference>();
  /** By name, the version that the gateway took last. */
  readonly #taken = new Map<string, number>();
  /** By name, the key that was tried last in place of a refused one, and refused as well. */
  readonly #triedInVain = new Map<string, UsableKey>();

  /** The accepted key where there is one, else the newest. */
  choose(address: KeyAddress, keys: readonly [UsableKey, ...UsableKey[]]): UsableKey {
    const [newest] = keys;
    const preference = this.#preferences.get(nameOf(address, newest));
    if (preference === undefined || !sameKey(preference.newest, newest)) return newest;
    return keys.find((key) => sameKey(key, preference.accepted)) ?? newest;
  }

  /**
   * What to try in place of a refused key: the one that was taken last, since several versions may have been
   * added after it, else the newest other one; after one that was tried in vain, the next.
   */
  instead(
    address: KeyAddress,
    keys: readonly [UsableKey, ...UsableKey[]],
    refused: UsableKey,
  ): UsableKey | undefined {
    const name = nameOf(address, refused);
    const others = keys.filter((key) => !sameKey(key, refused));
    const isTaken = ({ version }: UsableKey): boolean => version === this.#taken.get(name);
    const inOrder = [...others.filter(isTaken), ...others.filter((key) => !isTaken(key))];
    const last = this.#triedInVain.get(name);
    const next = last === undefined ? 0 : 1 + inOrder.findIndex((key) => sameKey(key, last));
    return inOrder[next] ?? inOrder[0];
  }

  /** `key`, tried in place of another one, was refused as well. */
  triedInVain(address: KeyAddress, key: UsableKey): void {
    this.#triedInVain.set(nameOf(address, key), key);
  }

  /** The gateway took a request signed with `key`. */
  taken(address: KeyAddress, key: UsableKey): void {
    const name = nameOf(address, key);
    this.#taken.set(name, key.version);
    this.#triedInVain.delete(name);
  }

  /** `key` was accepted: it is used from now on, until another one is accepted or the ring changes. */
  accepted(address: KeyAddress, keys: readonly [UsableKey, ...UsableKey[]], key: UsableKey): void {
    const [newest] = keys;
    this.taken(address, key);
    if (sameKey(key, newest)) this.#preferences.delete(nameOf(address, newest));
    else this.#preferences.set(nameOf(address, newest), { newest, accepted: key });
  }
}

function nameOf(address: KeyAddress, key: UsableKey): string {
  return `${address.environment}/${address.login}/${key.kind}`;
}
