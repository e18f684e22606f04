import * as fc from 'fast-check';
import type { Pair } from '../../src/oauth1/parameters.ts';
import { anyCharacter } from './any-character.ts';

/** Characters that signers, form encoders and sorts often get wrong. */
const awkwardCharacters = Array.from(
  [
    '!\'()*~-._ +%&=;,/:@?#"<>[]{}|\\^`',
    'aAzZ019',
    '\0\t\r\n\u007f',
    '\u0080éÿıß私\u0301\u200b\u2028\ud7ff\ue000\ufeff\ufffd\uffff',
    '\u{10000}😀\u{10ffff}',
  ].join(''),
);

const awkwardTexts = [
  "%2B %zz % %C3%28 a=b=c && !!''(())** null undefined a[] a[b] 0 10 9 phone= Phone",
  '__proto__ constructor prototype toString hasOwnProperty length realm oauth oauth-nonce',
]
  .join(' ')
  .split(' ')
  .concat('', '+ +', '\r\n');

const text = fc.oneof(
  fc.constantFrom(...awkwardTexts),
  fc.string({ unit: fc.constantFrom(...awkwardCharacters), maxLength: 10 }),
  fc.string({ unit: anyCharacter, maxLength: 10 }),
);

/** Few enough that a form often repeats one. */
const name = fc.oneof(fc.constantFrom('', 'a', 'phone', 'phone2', '__proto__'), text);

/**
 * Forms as decoded pairs, with many awkward characters, names of Object.prototype, empty and repeated names, but no
 * name that is or looks like `oauth_*`, since callers may not send those.
 */
export const formArbitrary: fc.Arbitrary<Pair[]> = fc.array(
  fc.tuple(
    name.filter((name) => !/oauth[^-]/i.test(name)),
    text,
  ),
  { maxLength: 8 },
);
