import { isUtf8 } from 'node:buffer';

/** `undefined` for what is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Text in UTF-8, without its byte order mark; `undefined` for what is none, such as UTF-16. */
export function utf8In(bytes: Uint8Array): string | undefined {
  return isUtf8(bytes) ? new TextDecoder().decode(bytes) : undefined;
}

/** The members of an object; none of anything else. */
export function entriesOf(value: unknown): Readonly<Record<string, unknown>> {
  return isMapping(value) ? { ...value } : {};
}

export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The whole number in at most 15 decimal digits that a text is; `undefined` if it is none, or not from `min` to `max`. */
export function wholeNumberIn(text: string, min = 0, max = 999_999_999_999_999): number | undefined {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return number >= min && number <= max ? number : undefined;
}

/** Plain ASCII, in one line: a terminal or a log does not obey what a forger, or another server, wrote. */
export function printable(text: string): string {
  return text.replace(/[^ -~]/g, '?');
}

/** `; did you mean "host"?` if a known name is close to this one, else an empty string. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const nearest = nearestOf(name, [...known]);
  return nearest === undefined ? '' : `; did you mean "${nearest}"?`;
}

/** The nearest known name as {@link didYouMean} says it, else all of them: `; known: sandbox, production`. */
export function didYouMeanOneOf(name: string, known: readonly string[]): string {
  return (
    didYouMean(name, known) || (known.length === 0 ? '; there are none' : `; known: ${known.join(', ')}`)
  );
}

/** At most a third of its characters differ: a name that is merely as long would lead astray. */
function nearestOf(name: string, known: readonly string[]): string | undefined {
  const lower = name.toLowerCase();
  const [nearest] = known
    .map((candidate) => ({ candidate, distance: distance(lower, candidate.toLowerCase()) }))
    .filter(({ candidate, distance }) => distance <= Math.floor(candidate.length / 3))
    .sort((a, b) => a.distance - b.distance);
  return nearest?.candidate;
}

/** Levenshtein distance, in which two swapped neighbors count once. Infinite for names that are too long to be a typo. */
export function distance(from: string, to: string): number {
  if (from.length > 128) return Number.POSITIVE_INFINITY;
  let before: number[] = [];
  let above = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (const [row, character] of from.split('').entries()) {
    const current = [row + 1];
    for (let column = 1; column <= to.length; column += 1) {
      const replaced = (above[column - 1] ?? 0) + (character === to[column - 1] ? 0 : 1);
      const isSwapped = character === to[column - 2] && from[row - 1] === to[column - 1];
      const swapped = isSwapped ? (before[column - 2] ?? 0) + 1 : replaced;
      current.push(Math.min(replaced, swapped, (above[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    before = above;
    above = current;
  }
  return above[to.length] ?? 0;
}
