import type { GatewayResponse } from './upstream-request.ts';

/** What the gateway tolerates is not shown (interface section 5.4); beyond this its clock is worth a look. */
const suspiciousSkew = 60;

export function isSkewed(reply: GatewayResponse, now: number): boolean {
  return Math.abs(skewOf(reply.headers.date, now) ?? 0) > suspiciousSkew;
}

/** Seconds by which the gateway's clock is ahead of ours. */
export function skewOf(date: string | undefined, now: number): number | undefined {
  const at = Date.parse(date ?? '');
  return Number.isNaN(at) ? undefined : (at - now) / 1000;
}
