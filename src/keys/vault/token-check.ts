import type { Secret } from '../../secret.ts';
import { lookUpSelf, revokeSelf, type TokenLease } from './auth-api.ts';
import type { VaultClient } from './client.ts';
import { isVaultError } from './errors.ts';

/** Milliseconds between logins made on a mere suspicion with the same credentials. */
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
  #mayLookUp = false;
  #lastSuspicion: { readonly at: number; readonly credentials: string } | undefined;

  /** @param monotonic milliseconds, never set back */
  constructor(client: VaultClient, monotonic: () => number) {
    this.#client = client;
    this.#monotonic = monotonic;
  }

  /**
   * Remembers whether a new token may look itself up: once it is revoked, it cannot be asked any more. One with
   * limited uses is not asked, since that is a use.
   */
  async learn({ token, uses }: TokenLease): Promise<void> {
    if (uses !== undefined) return;
    this.#mayLookUp = await this.#canLookUp(token).catch(() => this.#mayLookUp);
  }

  /**
   * What a token that was denied something is.
   *
   * @param fingerprint of the credentials for a new login; changed ones are worth one at once
   * @throws VaultError where Vault cannot be asked
   */
  async judge(token: Secret, fingerprint: () => Promise<string>): Promise<'good' | 'suspected' | 'revoked'> {
    if (await this.#canLookUp(token)) return 'good';
    if (this.#mayLookUp) return 'revoked';
    const credentials = await fingerprint();
    const at = this.#monotonic();
    const last = this.#lastSuspicion;
    if (last?.credentials === credentials && at - last.at < suspicionEvery) return 'good';
    this.#lastSuspicion = { at, credentials };
    return 'suspected';
  }

  /** A login that Vault could not answer says nothing of the token: the next denial is worth another. */
  undecided(): void {
    this.#lastSuspicion = undefined;
  }

  /** For a suspected token that was replaced: it may still live and must not be left behind. */
  async replaced(before: Secret): Promise<void> {
    await revokeSelf(this.#client, before).catch(() => {
      // Without the permission it ends with its lease.
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
