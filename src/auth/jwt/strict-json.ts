import { isDeepStrictEqual } from 'node:util';
import { parseJson } from '../../util/text.ts';

/**
 * Parses JSON whose objects contain no name twice: `JSON.parse` takes the last one, and who made the token may have
 * meant the first (RFC 7515 section 4, RFC 7519 section 4). Then the text has a name more often than the value. So it has
 * where V8 reads an escaped name as another one, after it parsed certain other texts (nodejs/node issue 63785).
 *
 * @returns `undefined` for invalid JSON, a name that occurs twice, and deeper nesting
 */
export function parseStrictJson(text: string, maxDepth: number): unknown {
  const value = parseJson(text);
  // Only of JSON: of other texts it can take quadratic time.
  const names = value === undefined ? undefined : namesIn(value, maxDepth);
  if (names === undefined) return undefined;
  return isDeepStrictEqual(names.sort(), writtenNames(text).sort()) ? value : undefined;
}

/** The names of the members of all objects in a value; `undefined` if it is nested deeper. */
function namesIn(value: unknown, maxDepth: number): string[] | undefined {
  if (typeof value !== 'object' || value === null) return [];
  if (maxDepth === 0) return undefined;
  const inner = Object.values(value).map((one) => namesIn(one, maxDepth - 1));
  const all = inner.filter((names) => names !== undefined);
  return all.length < inner.length
    ? undefined
    : [Array.isArray(value) ? [] : Object.keys(value), ...all].flat();
}

/** The names in JSON as it is written, each decoded by itself: "\u0065xp" is "exp". */
function writtenNames(text: string): string[] {
  const strings = text.matchAll(/("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?/g);
  return Array.from(strings).flatMap(([, name = '', colon]) =>
    colon === undefined ? [] : [JSON.parse(name)],
  );
}
