import { type Secret, sameSecret } from '../../secret.ts';
import type { TokenLease } from './auth-api.ts';

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
