import { percentEncode } from './encode.ts';

/** One decoded parameter. A form is a list of them, with order, duplicates and empty parts kept. */
export type Pair = readonly [name: string, value: string];

/** RFC 5849 section 3.4.1.3.2, step 1: "the name and value of each parameter are encoded". */
export function encodePairs(pairs: readonly Pair[]): Pair[] {
  return pairs.map(([name, value]) => [percentEncode(name), percentEncode(value)]);
}

/**
 * RFC 5849 section 3.4.1.3.2, steps 2 to 4, on encoded pairs: sorted "using ascending byte value ordering" by name,
 * then by value; names and values joined with `=`, pairs with `&`.
 *
 * Names and values are compared separately: comparing `name=value` would put `phone2=` before `phone=`. Encoded text
 * is ASCII, so comparing strings compares bytes.
 */
export function normalize(encoded: readonly Pair[]): string {
  return joinPairs([...encoded].sort((a, b) => compare(a[0], b[0]) || compare(a[1], b[1])));
}

/** Encoded pairs as form text, in the given order. */
export function joinPairs(encoded: readonly Pair[]): string {
  return encoded.map(([name, value]) => `${name}=${value}`).join('&');
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
