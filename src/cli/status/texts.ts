import { age } from '../../keys/describe.ts';

type Time = string | null;

/** `5m`, or `-` without a time. */
export function since(time: Time, now: number): string {
  return time === null ? '-' : age(new Date(time), now);
}

/** `in 5m`, or `5m ago` for a time that has passed. */
export function until(time: string, now: number): string {
  const at = Date.parse(time);
  return at < now ? `${age(new Date(at), now)} ago` : `in ${age(new Date(now), at)}`;
}

/** Seconds, in a unit that fits. */
export function duration(seconds: number): string {
  const milliseconds = seconds * 1000;
  if (milliseconds < 1000) return `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`;
  return `${seconds.toFixed(1)} s`;
}

/** JSON in plain ASCII: everything else is escaped, as JSON can. */
export function asciiJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(
    /[^ -~\n]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
