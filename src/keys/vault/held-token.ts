import type { Lease } from './auth.ts';

/** The token in use. */
export interface HeldToken extends Lease {
  /** Milliseconds on the monotonic clock; for a revoked token when that was found out. */
  until: number;
  /** Seconds of the first lease of this token; when renewals give much less, its end is near. */
  readonly firstSeconds: number;
  /** When it was last known to be good, on the monotonic clock. */
  goodAt: number;
}
