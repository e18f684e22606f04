import { sameSecret } from '../../secret.ts';
import type { TokenLease } from './auth-api.ts';

/** The token in use. */
export interface HeldToken extends TokenLease {
  /** Milliseconds on the monotonic clock. */
  readonly until: number;
  /** Seconds of the first lease of this token; when renewals give much less, its end is near. */
  readonly firstSeconds: number;
  /** When it was last known to be good, on the monotonic clock. */
  goodAt: number;
}

/**
 * @param firstSeconds of the token's first lease
 * @param since when the lease began, on the monotonic clock
 * @param before the configured token as it was held until now; absent where a login gave a new one
 */
export function holdLease(
  lease: TokenLease,
  firstSeconds: number,
  since: number,
  before: HeldToken | undefined,
): HeldToken {
  const until = lease.seconds === 0 ? Number.POSITIVE_INFINITY : since + lease.seconds * 1000;
  return { ...lease, wholeSeconds: wholeSecondsOf(lease, before), until, firstSeconds, goodAt: since };
}

/** Near its end, looking a configured token up again and renewing it give ever less: that is not its length. */
function wholeSecondsOf({ token, wholeSeconds }: TokenLease, before: HeldToken | undefined): number {
  const isSame = before !== undefined && sameSecret(before.token, token);
  return isSame ? Math.max(before.wholeSeconds, wholeSeconds) : wholeSeconds;
}
