import type { KeyKind } from '../oauth1/methods.ts';
import { inSpan } from '../util/trace.ts';
import { tooManyWaiting } from './errors.ts';
import { KeyHistory } from './key-history.ts';
import type { KeyRing, LoginRef } from './key-source.ts';
import { type DescribedVersions, describeKeys } from './key-state.ts';
import { type KeySelectorOptions, LoginKeys, type LoginKeysContext } from './login-keys.ts';
import { keyName } from './login-ref.ts';
import { Looks } from './looks.ts';
import { endless, type Patience, Waiting } from './waiting.ts';

/**
 * Selects the key version to sign with while Vault and the gateway may know different ones: for each login and kind of
 * key by its {@link LoginKeys}, which learn from the gateway's responses.
 */
export class KeySelector {
  readonly #options: KeySelectorOptions;
  readonly #keys = new Map<string, LoginKeys>();
  readonly #context: LoginKeysContext;

  constructor(options: KeySelectorOptions) {
    this.#options = options;
    const { keys, monotonic, metrics, setTimer } = options;
    const looks = new Looks({
      monotonic,
      setTimer,
      look: (login) => keys.look(login),
      intervalChanged: (seconds) => metrics.keyLookInterval(seconds),
    });
    const waiting = new Waiting({ monotonic, setTimer });
    this.#context = { options, looks, waiting, ringOf: (...request) => this.#ringOf(...request) };
  }

  /**
   * The keys as cached now; those of a login that is not cached are read.
   *
   * @throws ProxyError `key-missing`, `key-unusable`, `key-source-unavailable`; `overloaded` if too many requests wait
   */
  async keysOf(login: LoginRef, kind: KeyKind, patience = endless): Promise<LoginKeys> {
    const ring = await this.#ringOf(login, kind, patience);
    const name = keyName(login, kind);
    const known = this.#keys.get(name);
    if (known !== undefined) {
      known.observe(ring);
      return known;
    }
    // Remembered only if it has keys: a client can invent any number of names.
    const keys = new LoginKeys(login, kind, ring, this.#context);
    this.#keys.set(name, keys);
    return keys;
  }

  /** The state of each version of a cached ring. Changes nothing, and keeps nothing about the login. */
  describe(login: LoginRef, kind: KeyKind, ring: KeyRing): DescribedVersions {
    const { clock, rotationGracePeriod } = this.#options;
    const history = this.#keys.get(keyName(login, kind))?.history ?? new KeyHistory();
    const entries = ring.filter((entry) => entry.kind === kind);
    return describeKeys(entries, history, clock(), rotationGracePeriod);
  }

  /** Makes each login that needs a look get one at once: the source is back, or was configured anew. */
  lookAgain(): void {
    this.#context.looks.reset();
    for (const { history } of this.#keys.values()) history.resetSteps();
  }

  #ringOf(login: LoginRef, kind: KeyKind, patience: Patience): Promise<KeyRing> {
    return inSpan('key lookup', (span) => {
      span?.add({ 'countersign.key.kind': kind });
      return this.#lookUp(login, kind, patience);
    });
  }

  async #lookUp(login: LoginRef, kind: KeyKind, patience: Patience): Promise<KeyRing> {
    const { keys } = this.#options;
    const isCached = keys.cached(login)?.some((one) => one.kind === kind) ?? false;
    const ring = keys.get(login, patience.deadline, kind);
    // The cache ends the wait.
    if (!isCached && !(await this.#context.waiting.forUncached(login, patience, ring))) {
      ring.catch(() => {});
      throw tooManyWaiting(login);
    }
    return ring;
  }
}
