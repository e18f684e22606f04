import type { GatewayResponse } from './upstream-request.ts';

/**
 * Seconds. How much skew the gateway tolerates is not specified (docs/gateway-interface.md section 5.4); more than
 * this is a likely cause of a 403.
 */
const suspiciousSkew = 60;

/** @param now milliseconds since 1970 */
export function isSkewed(response: GatewayResponse, now: number): boolean {
  return Math.abs(skewOf(response.headers.date, now) ?? 0) > suspiciousSkew;
}

/**
 * Seconds by which the gateway's clock is ahead of ours, at least. `Date` has whole seconds (RFC 9110 section 5.6.7), so
 * the time may be up to a second later: a clock that is equal to ours has a skew of 0.
 *
 * @param now milliseconds since 1970
 */
export function skewOf(date: string | undefined, now: number): number | undefined {
  const at = Date.parse(date ?? '');
  if (Number.isNaN(at)) return undefined;
  return (Math.max(0, at - now) + Math.min(0, at + 1000 - now)) / 1000;
}
