const first = Date.parse('0000-01-01T00:00:00.000Z');
const last = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * A time as ISO 8601, which has years of four digits: an earlier or later one becomes the first or the last of them.
 *
 * @param milliseconds since 1970; NaN, as of a certificate with a date that cannot be parsed, becomes the first
 */
export function isoTime(milliseconds: number): string {
  const time = Number.isNaN(milliseconds) ? first : milliseconds;
  return new Date(Math.min(Math.max(time, first), last)).toISOString();
}
