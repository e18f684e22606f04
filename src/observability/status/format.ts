import type { StatusFacts } from './facts.ts';

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

/** How long something lasts. A clock that was set back makes no negative time. */
export function since(now: string, time: string): string {
  return span(Math.max(0, secondsBetween(time, now)));
}

/** `3 min ago`, `just now` or `in 3 min`. */
export function relative(now: string, time: string): string {
  const seconds = secondsBetween(now, time);
  if (Math.abs(seconds) < 1) return 'just now';
  return seconds < 0 ? `${span(-seconds)} ago` : `in ${span(seconds)}`;
}

/** Time of day in UTC, with the date if it is another day than `now`. */
export function clockText(now: string, time: string): string {
  const [date = '', clock = ''] = time.split('T');
  return now.startsWith(date) ? clock.slice(0, 8) : `${date} ${clock.slice(0, 5)}`;
}

/** `0`, `2.4` or `12,346`. */
export function rate(perSecond: number): string {
  return perSecond > 0 && perSecond < 0.05 ? '< 0.1' : short(perSecond);
}

const integers = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** `12,346` */
export function whole(value: number): string {
  return integers.format(value);
}

/** @param share 0 to 1 */
export function percent(share: number): string {
  return share > 0 && share < 0.001 ? '< 0.1%' : `${short(share * 100)}%`;
}

/** `84 ms`, `1.2 s`. */
export function latency(seconds: number): string {
  const milliseconds = seconds * 1000;
  return milliseconds < 999.5 ? `${short(milliseconds)} ms` : `${seconds.toFixed(1)} s`;
}

/** With one decimal below 10, unless it is 0. */
function short(value: number): string {
  return Number.isInteger(value) || value >= 9.95 ? whole(value) : value.toFixed(1);
}

/** With its sign; in one unit from two minutes on. */
export function skew(seconds: number): string {
  const size = Math.abs(seconds);
  const rounded = size.toFixed(1);
  if (Number(rounded) === 0) return '0 s';
  return `${seconds > 0 ? '+' : '\u2212'}${size < 2 * minute ? `${rounded} s` : span(size)}`;
}

/** `1 key`, `2 keys`. */
export function counted(count: number, noun: string): string {
  return `${whole(count)} ${noun}${count === 1 ? '' : 's'}`;
}

export function kindName(kind: string): string {
  return kind === 'private_key' ? 'RSA key' : 'control key';
}

/** The one name of a version, with the number that log, metrics and commands have. In a directory that is a time. */
export function versionName(version: number): string {
  return `version ${version}`;
}

export function sourceName(type: StatusFacts['keySource']['type']): string {
  return type === 'vault' ? 'Vault' : 'Key directory';
}

export function capitalized(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
