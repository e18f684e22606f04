import { type Secret, sameSecret } from '../../secret.ts';
import { Backoff } from '../../util/backoff.ts';
import { lookUpSelf, type TokenLease } from './auth-methods.ts';
import type { VaultClient } from './client.ts';
import { isVaultError } from './errors.ts';

/** Milliseconds between logins with the same credentials because of a suspected token. */
const suspicionRange = { initial: 600_000, max: 600_000, jitter: 0 };

export interface HeldToken extends TokenLease {
  /** When it expires; monotonic, milliseconds. */
  readonly until: number;
  /** Seconds of the first lease of this token. Much shorter renewals mean that it is near its maximum TTL. */
  readonly firstSeconds: number;
  /** When it was last known to be valid; monotonic, milliseconds. */
  verifiedAt: number;
  /** Whether something was done with it that needs a permission. */
  worked: boolean;
}

/** Whether a token that is denied a request may be used up: it has worked, so it lacks no permission. */
export function mayBeUsedUp({ uses, worked }: HeldToken): boolean {
  return uses !== undefined && worked;
}

/**
 * @param firstSeconds of the token's first lease
 * @param since when the lease began; monotonic, milliseconds
 * @param previous the configured token until now; absent if a login returned a new one
 */
export function holdLease(
  lease: TokenLease,
  firstSeconds: number,
  since: number,
  previous: HeldToken | undefined,
): HeldToken {
  const until = lease.seconds === 0 ? Number.POSITIVE_INFINITY : since + lease.seconds * 1000;
  return {
    ...lease,
    wholeSeconds: wholeSecondsOf(lease, previous),
    until,
    firstSeconds,
    verifiedAt: since,
    worked: false,
  };
}

/** Near the end of a configured token, lookups and renewals return ever shorter leases: not its full length. */
function wholeSecondsOf({ token, wholeSeconds }: TokenLease, previous: HeldToken | undefined): number {
  const isSame = previous !== undefined && sameSecret(previous.token, token);
  return isSame ? Math.max(previous.wholeSeconds, wholeSeconds) : wholeSeconds;
}

export async function workWith<T>(held: HeldToken, work: (token: Secret) => Promise<T>): Promise<T> {
  const result = await work(held.token);
  held.worked = true;
  return result;
}

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
