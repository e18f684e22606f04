/** A text of about so many bytes of UTF-8. */
export type Shape = (bytes: number) => string;

const fill = (part: string, bytes: number): string =>
  part.repeat(Math.max(0, Math.floor(bytes / Buffer.byteLength(part))));

const repeated =
  (part: string): Shape =>
  (bytes) =>
    fill(part, bytes);

const between =
  (before: string, part: string, after = ''): Shape =>
  (bytes) =>
    before + fill(part, bytes - before.length - after.length) + after;

const base64url = (text: string): string => Buffer.from(text).toString('base64url');

/** A JWT whose payload is this JSON. */
const jwtOf =
  (payload: Shape): Shape =>
  (bytes) =>
    `Bearer ${base64url('{"alg":"RS256"}')}.${base64url(payload((bytes * 3) / 4))}.AAAA`;

const numberedNames: Shape = (bytes) =>
  `{${Array.from({ length: bytes / 10 }, (_, index) => `"${index}":1`).join()}}`;

/**
 * Texts that make a careless parser, pattern or redaction take long: runs of one character, pairs of characters that are
 * read again from each position, almost-matches of what we parse, and Unicode that normalization reorders or expands.
 */
export const texts: Readonly<Record<string, Shape>> = {
  digits: repeated('4'),
  'card numbers': repeated('4111111111111112-'),
  'digits far apart': repeated(`1${'-'.repeat(40)}`),
  letters: repeated('a'),
  spaces: repeated(' '),
  quotes: repeated('"'),
  'an open quote and commas': between('"', ','),
  'quotes and commas': repeated(', "'),
  backslashes: between('"', '\\'),
  semicolons: repeated(';'),
  'names after semicolons': (bytes) =>
    Array.from({ length: bytes / 4 }, (_, index) => `;${String.fromCharCode(0x800 + index)}`).join(''),
  ampersands: repeated('&'),
  'percent signs': repeated('%'),
  'percent-encoded percent signs': repeated('%25'),
  'what was encoded again and again': between('%', '25', '41'),
  'characters to encode': repeated("!'()*"),
  'combining marks': repeated('\u0301\u0323\u0345\u0327'),
  'combining marks in one order': between('a', '\u0323', '\u0301'),
  'invisible characters': repeated('\u200b'),
  'blanks and invisible characters': repeated('\u00a0\u200b'),
  'characters that normalization expands': repeated('\ufdfa'),
  'Hangul that normalization composes': repeated('\u1100\u1161'),
  'characters of four bytes': repeated('\u{1d428}'),
  'dots of a token': between('Bearer ', '.'),
  'a token': between('Bearer ', 'a', '"'),
  'blanks for a token': between('Bearer', ' ', '"'),
  'padding of a token': between('Bearer a', '=', '"'),
  'blanks for Basic': between('Basic', ' ', '"'),
  'padding for Basic': between('Basic A', '=', '"'),
  'a JWT of nested objects': jwtOf(between('{"a":', '{"a":')),
  'a JWT of nested lists': jwtOf((bytes) => `${'['.repeat(bytes / 2)}${']'.repeat(bytes / 2)}`),
  'a JWT of many names': jwtOf(numberedNames),
  'a JWT of one name': jwtOf(between('{"a":1', ',"a":1', '}')),
  'a JWT of escapes': jwtOf(between('{"', '\\u0061', '":1}')),
  'a JWT of an open string': jwtOf(between('{"', '\\\\')),
  slashes: repeated('/'),
  'path segments': repeated('/A'),
  'media ranges with weights': repeated('a/b;q=0.1,'),
  'parameters of a media range': between('a/b', ';a=b'),
  'blanks in a media type': between('application/x-www-form-urlencoded', ' ', 'x'),
  'semicolons after a charset': between('application/x-www-form-urlencoded; charset=a', '; ', 'x'),
  'a long charset': between('application/x-www-form-urlencoded; charset=', 'a-', 'x'),
  'a trace with more fields': between(`01-${'0af7'.repeat(8)}-${'b7ad'.repeat(4)}-01`, '-a'),
  'OAuth fields': between('OAuth ', 'a="b", ', '"'),
  'an open OAuth field': between('OAuth a="', 'a'),
  parameters: repeated('a=b&'),
  'parameters in reverse': (bytes) =>
    Array.from({ length: bytes / 8 }, (_, index) => `p${999_999 - index}=`).join('&'),
  'parameters with long names': repeated(`${'a'.repeat(60)}=1&`),
  'parameters with card data': repeated('credit_card_number=4111111111111111&'),
  'parameters that look like OAuth': repeated('oauth.a=b&'),
  'lines of a response': repeated('a=b\n&'),
  'names of a certificate': repeated('DNS:a.test, '),
  'quoted names of a certificate': repeated('DNS:"a, '),
};
