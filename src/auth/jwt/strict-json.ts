const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:]/g;

/**
 * Parses JSON whose objects contain no name twice: `JSON.parse` takes the last one, and who made the token may have
 * meant the first (RFC 7515 section 4, RFC 7519 section 4).
 *
 * @returns `undefined` for invalid JSON, a name that occurs twice, and deeper nesting
 */
export function parseStrictJson(text: string, maxDepth: number): unknown {
  try {
    // Parsed first: the check takes quadratic time for some texts that are not JSON.
    const value: unknown = JSON.parse(text);
    return isStrict(text, maxDepth) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** For valid JSON. Of invalid JSON it says nothing. */
function isStrict(text: string, maxDepth: number): boolean {
  /** The names so far of each open object; `undefined` for a list. */
  const open: (Set<string> | undefined)[] = [];
  let last = '';
  for (const [token] of text.matchAll(tokens)) {
    if (token === '{' || token === '[') open.push(token === '{' ? new Set() : undefined);
    else if (token === '}' || token === ']') open.pop();
    else if (token !== ':') last = token;
    else {
      // Compared without escapes: "\u0065xp" is "exp".
      const name: string = JSON.parse(last);
      const names = open.at(-1);
      if (names?.has(name)) return false;
      names?.add(name);
    }
    if (open.length > maxDepth) return false;
  }
  return true;
}
