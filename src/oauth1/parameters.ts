import { percentEncode } from './encode.ts';

/** One decoded parameter. A form is a list of them, with order, duplicates and empty parts kept. */
export type Pair = readonly [name: string, value: string];

/** RFC 5849 section 3.4.1.3.2, step 1: "the name and value of each parameter are encoded". */
export function encodePairs(pairs: readonly Pair[]): Pair[] {
  const encoded: Pair[] = [];
  for (const [name, value] of pairs) encoded.push([percentEncode(name), percentEncode(value)]);
  return encoded;
}

/**
 * RFC 5849 section 3.4.1.3.2, steps 2 to 4, on encoded pairs: sorted "using ascending byte value ordering" by name,
 * then by value; names and values joined with `=`, pairs with `&`.
 *
 * Names and values are compared separately: comparing `name=value` would put `phone2=` before `phone=`. Encoded text
 * is ASCII, so comparing strings compares bytes.
 */
export function normalize(encoded: readonly Pair[]): string {
  return joinPairs(encoded.toSorted(compare));
}

/** Encoded pairs as form text, in the given order. */
export function joinPairs(encoded: readonly Pair[]): string {
  let text = '';
  for (const [name, value] of encoded) text += `${text === '' ? '' : '&'}${name}=${value}`;
  return text;
}

function compare(one: Pair, other: Pair): number {
  const part = one[0] === other[0] ? 1 : 0;
  if (one[part] === other[part]) return 0;
  return one[part] < other[part] ? -1 : 1;
}
