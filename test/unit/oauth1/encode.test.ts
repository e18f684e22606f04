import { describe, expect, it } from '@jest/globals';
import { percentEncode } from '../../../src/oauth1/encode.ts';

/** RFC 5849 section 3.6, which takes its unreserved characters from RFC 3986 section 2.3. */
describe('percentEncode', () => {
  it('does not encode the 66 unreserved characters', () => {
    const unreserved = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~';

    expect(percentEncode(unreserved)).toBe(unreserved);
  });

  it('encodes every other ASCII character as two upper-case hex digits', () => {
    for (let code = 0; code < 128; code += 1) {
      const character = String.fromCharCode(code);
      if (/[A-Za-z0-9._~-]/.test(character)) continue;
      const hex = Buffer.from(character).toString('hex').toUpperCase();

      expect(percentEncode(character)).toBe(`%${hex}`);
    }
  });

  it("encodes all occurrences of !'()*, not only the first", () => {
    expect(percentEncode("!!''(())**!")).toBe('%21%21%27%27%28%28%29%29%2A%2A%21');
  });

  it('encodes a space as %20, and a plus as %2B', () => {
    expect(percentEncode('a b+c')).toBe('a%20b%2Bc');
  });

  it('encodes encoded text again', () => {
    expect(percentEncode('%3D')).toBe('%253D');
  });

  it.each([
    ['é', '%C3%A9'],
    ['\u3001', '%E3%80%81'],
    ['\u{1f600}', '%F0%9F%98%80'],
    ['\u0000', '%00'],
    ['\ufeff', '%EF%BB%BF'],
  ])('encodes the UTF-8 bytes of %j', (character, encoded) => {
    expect(percentEncode(character)).toBe(encoded);
  });

  it('rejects a lone surrogate without showing the text', () => {
    const problem = thrownBy(() => percentEncode('planted\ud800'));

    expect(problem).toBeInstanceOf(URIError);
    expect(String(problem)).not.toContain('planted');
  });
});

function thrownBy(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}
