import * as fc from 'fast-check';

const [lastBeforeSurrogates, firstAfterSurrogates] = [0xd7ff, 0xe000];
const surrogates = firstAfterSurrogates - lastBeforeSurrogates - 1;

/**
 * One code point but a surrogate: what fast-check calls the unit `binary`. That builds a map of all 1,112,064 of them in
 * each file, which takes more than a second.
 */
export const anyCharacter: fc.Arbitrary<string> = fc.nat(0x10ffff - surrogates).map(
  (nth) => String.fromCodePoint(nth > lastBeforeSurrogates ? nth + surrogates : nth),
  (character) => {
    const [one, ...more] = typeof character === 'string' ? Array.from(character) : [];
    const code = one?.codePointAt(0);
    if (code === undefined || more.length > 0) throw new TypeError('not one character');
    return code > lastBeforeSurrogates ? code - surrogates : code;
  },
);
