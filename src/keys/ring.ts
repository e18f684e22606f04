import { Refusal } from '../errors.ts';
import type { KeyKind } from '../oauth1/methods.ts';
import { addressName } from './address.ts';
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

type Keys = readonly [UsableKey, ...UsableKey[]];

/** What is known of the keys of one login and kind. */
interface Standing {
  /** The one that the gateway took last. */
  readonly taken?: UsableKey;
  /** The newest key, where the gateway refused it and took another one in its place. */
  readonly premature?: UsableKey;
  /** The one that was refused last with a request that could not be sent again. */
  readonly doubted?: UsableKey;
  /** The one that was tried last in place of a refused one, and was refused as well. */
  readonly triedInVain?: UsableKey;
}

/** Remembers, per login and kind of key, what the gateway made of its versions. */
export class Preferences {
  readonly #standings = new Map<string, Standing>();

  /**
   * A bold choice, for a request that can be sent again: the newest key, unless the gateway has refused it and
   * taken another one. A careful choice, for one that cannot: what the gateway took last, until somebody bold
   * has found that it takes the newest; and after a refusal another one, so that no version can block payments.
   */
  choose(address: KeyAddress, keys: Keys, manner: 'bold' | 'careful' = 'bold'): UsableKey {
    const [newest] = keys;
    if (keys.length === 1) return newest;
    const { taken, premature, doubted } = this.#standing(address, newest);
    const known = keys.find(is(taken)) ?? newest;
    if (manner === 'bold') return is(premature)(newest) ? known : newest;
    return is(doubted)(known) ? (this.instead(address, keys, known) ?? known) : known;
  }

  /**
   * What to try in place of a refused key: the one that was taken last, since several versions may have been
   * added after it, else the newest other one; after one that was tried in vain, the next.
   */
  instead(address: KeyAddress, keys: Keys, refused: UsableKey): UsableKey | undefined {
    const { taken, triedInVain } = this.#standing(address, refused);
    const others = keys.filter((key) => !sameKey(key, refused));
    const inOrder = [...others.filter(is(taken)), ...others.filter((key) => !is(taken)(key))];
    return inOrder[1 + inOrder.findIndex(is(triedInVain))] ?? inOrder[0];
  }

  /** The gateway took a request signed with `key`. */
  taken(address: KeyAddress, key: UsableKey): void {
    const { taken, premature, doubted, triedInVain } = this.#standing(address, key);
    if (taken === key && doubted === undefined && triedInVain === undefined) return;
    this.#set(address, key, premature === undefined ? { taken: key } : { taken: key, premature });
  }

  /** `key` was taken in place of a refused one: it is chosen from now on, until the newest key is another. */
  accepted(address: KeyAddress, [newest]: Keys, key: UsableKey): void {
    this.#set(address, key, sameKey(key, newest) ? { taken: key } : { taken: key, premature: newest });
  }

  /** `key` was refused, with a request that could not be sent again. */
  doubted(address: KeyAddress, key: UsableKey): void {
    this.#set(address, key, { ...this.#standing(address, key), doubted: key });
  }

  /** `key`, tried in place of another one, was refused as well. */
  triedInVain(address: KeyAddress, key: UsableKey): void {
    this.#set(address, key, { ...this.#standing(address, key), triedInVain: key });
  }

  #standing(address: KeyAddress, { kind }: UsableKey): Standing {
    return this.#standings.get(nameOf(address, kind)) ?? {};
  }

  #set(address: KeyAddress, { kind }: UsableKey, standing: Standing): void {
    this.#standings.set(nameOf(address, kind), standing);
  }
}

/** Whether a key is this one; no key is one that is not known. */
function is(known: UsableKey | undefined): (key: UsableKey) => boolean {
  return (key) => known !== undefined && sameKey(key, known);
}

function nameOf(address: KeyAddress, kind: KeyKind): string {
  return `${addressName(address)}/${kind}`;
}
