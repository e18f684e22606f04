import { type Html, html } from './html.ts';

const [minute, hour, day] = [60, 3_600, 86_400];

/** `45 s`, `3 min`, `26 h` or `12 days`: one unit, rounded down. @param seconds 0 or more */
export function span(seconds: number): string {
  if (seconds < minute) return `${Math.floor(seconds)} s`;
  if (seconds < hour) return `${Math.floor(seconds / minute)} min`;
  if (seconds < 2 * day) return `${Math.floor(seconds / hour)} h`;
  return `${Math.floor(seconds / day)} days`;
}

/** Seconds from one ISO 8601 time to another; negative if the other is earlier. */
export function secondsBetween(from: string, to: string): number {
  return (Date.parse(to) - Date.parse(from)) / 1000;
}

/** `3 min ago` or `in 3 min`. */
export function relative(now: string, time: string): string {
  const seconds = secondsBetween(now, time);
  if (Math.abs(seconds) < 1) return 'now';
  return seconds < 0 ? `${span(-seconds)} ago` : `in ${span(seconds)}`;
}

/** Time of day in UTC, with the date if it is another day than `now`. */
export function clockTime(now: string, time: string): Html {
  const [date = '', clock = ''] = new Date(time).toISOString().split('T');
  const sameDay = new Date(now).toISOString().startsWith(date);
  const text = sameDay ? clock.slice(0, 8) : `${date} ${clock.slice(0, 5)}`;
  return html`<time datetime="${time}">${text}</time>`;
}

/** `3 min ago`, with the time itself for programs and on hover. */
export function relativeTime(now: string, time: string): Html {
  return html`<time datetime="${time}" title="${time}">${relative(now, time)}</time>`;
}

/** `1,234`, or with one decimal below 10. */
export function rate(perSecond: number): string {
  return perSecond < 10 && !Number.isInteger(perSecond) ? perSecond.toFixed(1) : whole(perSecond);
}

export function whole(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** @param share 0 to 1 */
export function percent(share: number): string {
  const value = share * 100;
  if (value > 0 && value < 0.1) return '< 0.1%';
  return `${value < 10 && !Number.isInteger(value) ? value.toFixed(1) : Math.round(value)}%`;
}

/** `84 ms`, `1.2 s`. */
export function latency(seconds: number): string {
  if (seconds < 0.01) return `${(seconds * 1000).toFixed(1)} ms`;
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
}

/** With its sign. */
export function skew(seconds: number): string {
  const rounded = seconds.toFixed(1);
  if (Math.abs(Number(rounded)) === 0) return '0 s';
  return `${seconds > 0 ? '+' : '\u2212'}${rounded.replace('-', '')} s`;
}

/** `1 key`, `2 keys`. */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${whole(count)} ${count === 1 ? noun : plural}`;
}
