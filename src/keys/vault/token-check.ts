import type { Secret } from '../../secret.ts';
import { Backoff } from '../../util/backoff.ts';
import { lookUpSelf, revokeSelf, type TokenLease } from './auth-api.ts';
import type { VaultClient } from './client.ts';
import { isVaultError } from './errors.ts';
import { type HeldToken, mayBeUsedUp } from './held-token.ts';

/** Milliseconds between logins with the same credentials because of a suspected token. */
const suspicionRange = { initial: 600_000, max: 600_000, jitter: 0 };

/**
 * Distinguishes a revoked token from one that lacks a permission: Vault responds to both in the same way. If the
 * token may look itself up, as the policy `default` permits, the lookup shows it. Otherwise the token is only
 * suspected: a new login may help, but not too often, since it may use up a credential and leaves a token behind.
 */
export class TokenCheck {
  readonly #client: VaultClient;
  readonly #monotonic: () => number;
  #mayLookUp = false;
  readonly #suspicions = new Backoff(suspicionRange);

  /** @param monotonic milliseconds, never set back */
  constructor(client: VaultClient, monotonic: () => number) {
    this.#client = client;
    this.#monotonic = monotonic;
  }

  /**
   * Checks whether a new token may look itself up, since that cannot be found out once it is revoked. Skips tokens
   * with limited uses: the lookup would be one.
   */
  async learn({ token, uses }: TokenLease): Promise<void> {
    if (uses !== undefined) return;
    this.#mayLookUp = await this.#canLookUp(token).catch(() => this.#mayLookUp);
  }

  /**
   * The state of a token that was denied a request. One that may be used up is worth a new login each time: a role
   * that limits the uses of its tokens needs many logins.
   *
   * @param fingerprint of the credentials for a new login; changed ones are tried at once
   * @throws VaultError if the lookup fails
   */
  async check(
    held: HeldToken,
    fingerprint: () => Promise<string>,
  ): Promise<'valid' | 'suspected' | 'revoked'> {
    if (await this.#canLookUp(held.token)) return 'valid';
    if (this.#mayLookUp) return 'revoked';
    if (mayBeUsedUp(held)) return 'suspected';
    const credentials = await fingerprint();
    const now = this.#monotonic();
    if (!this.#suspicions.isDue(now, credentials)) return 'valid';
    this.#suspicions.recordFailure(now, {}, credentials);
    return 'suspected';
  }

  /** Allows another login at the next denial: the last one failed because Vault was unavailable. */
  forgetSuspicion(): void {
    this.#suspicions.reset();
  }

  /** Revokes a suspected token that was replaced: it may still be valid. */
  async revokeReplaced(previous: Secret): Promise<void> {
    await revokeSelf(this.#client, previous).catch(() => {
      // Without that permission it expires with its lease.
    });
  }

  async #canLookUp(token: Secret): Promise<boolean> {
    try {
      await lookUpSelf(this.#client, token);
      return true;
    } catch (error) {
      if (isVaultError(error, 'denied')) return false;
      throw error;
    }
  }
}
