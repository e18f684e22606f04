import oauthSign from 'oauth-sign';

type Pair = readonly [name: string, value: string];

/** RFC 5849 section 3.4.1.1 by the package oauth-sign, which shares no code with src/oauth1. */
export function otherBaseString(method: string, baseUri: string, pairs: readonly Pair[]): string {
  return oauthSign.generateBase(method, baseUri, byName(pairs));
}

/** RFC 5849 section 3.4.2 by the package oauth-sign. */
export function otherHmacSha1(
  method: string,
  baseUri: string,
  pairs: readonly Pair[],
  consumerSecret: string,
  tokenSecret: string,
): string {
  return oauthSign.hmacsign(method, baseUri, byName(pairs), consumerSecret, tokenSecret);
}

/**
 * oauth-sign takes an object with an array for each name. If it has no prototype, `__proto__` is an ordinary name and
 * every pair is kept, so every form can be compared.
 */
function byName(pairs: readonly Pair[]): Record<string, string[]> {
  const values: Record<string, string[]> = Object.create(null);
  for (const [name, value] of pairs) (values[name] ??= []).push(value);
  return values;
}
