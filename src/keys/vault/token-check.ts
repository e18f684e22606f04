import type { Secret } from '../../secret.ts';
import { lookUpSelf, revokeSelf } from './auth.ts';
import type { VaultClient } from './client.ts';
import { isProblem } from './problem.ts';

/** Milliseconds between logins made on a mere suspicion. */
const suspicionEvery = 600_000;

/**
 * Tells a token that was revoked from one that lacks a permission; Vault denies both in the same words. A token
 * that may look itself up, as the policy `default` says, answers that. Where that is denied too, the
 * token is only suspected: a new login may show which it is, but not too often, since each may use up a
 * credential and leaves a token behind.
 */
export class TokenCheck {
  readonly #client: VaultClient;
  readonly #monotonic: () => number;
  /** Whether tokens of this login may look themselves up; unknown until one did. */
  #mayLookUp = false;
  #nextSuspicionAt = Number.NEGATIVE_INFINITY;
  /** Since when a token is suspected and neither replaced nor used well. */
  #suspectedAt: number | undefined;

  /** @param monotonic milliseconds, never set back */
  constructor(client: VaultClient, monotonic: () => number) {
    this.#client = client;
    this.#monotonic = monotonic;
  }

  /** What a token that was denied something is. @throws VaultError where Vault cannot be asked */
  async judge(token: Secret): Promise<'good' | 'suspected' | 'revoked'> {
    if (await this.#canLookUp(token)) return 'good';
    if (this.#mayLookUp) return 'revoked';
    const now = this.#monotonic();
    if (now < this.#nextSuspicionAt) return 'good';
    this.#suspectedAt ??= now;
    return 'suspected';
  }

  /**
   * The token was good for something. Where it was suspected and could not be replaced, that clears it; a token that
   * is of no use any more stays suspected, so that it is replaced as soon as that is possible.
   *
   * @param begun when it was used, on the monotonic clock
   */
  worked(begun: number): void {
    if (this.#suspectedAt === undefined || begun <= this.#suspectedAt) return;
    this.#settle();
  }

  /**
   * For a token that took the place of a suspected one. That may still live and must not be left behind; the new
   * one shows whether tokens may look themselves up.
   */
  async replaced(before: Secret, next: Secret): Promise<void> {
    this.#settle();
    const ignore = (): void => {};
    await Promise.all([revokeSelf(this.#client, before).catch(ignore), this.#canLookUp(next).catch(ignore)]);
  }

  #settle(): void {
    this.#suspectedAt = undefined;
    this.#nextSuspicionAt = this.#monotonic() + suspicionEvery;
  }

  async #canLookUp(token: Secret): Promise<boolean> {
    try {
      await lookUpSelf(this.#client, token);
      this.#mayLookUp = true;
      return true;
    } catch (error) {
      if (isProblem(error, 'denied')) return false;
      throw error;
    }
  }
}
