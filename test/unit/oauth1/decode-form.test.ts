import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../src/errors.ts';
import { decodeForm } from '../../../src/oauth1/decode-form.ts';

/** RFC 5849 section 3.4.1.3.1, and the parser of the WHATWG URL standard, "urlencoded parsing". */
describe('decodeForm', () => {
  it('decodes the query of RFC 5849 section 3.4.1.3.1, and a character whose bytes are partly escaped', () => {
    expect(decoded('b5=%3D%253D&a3=a&c%40=&a2=r%20b')).toEqual([
      ['b5', '=%3D'],
      ['a3', 'a'],
      ['c@', ''],
      ['a2', 'r b'],
    ]);
    expect(decodeForm(Buffer.from('613dc3254139', 'hex'))).toEqual([['a', 'é']]);
  });

  it.each([
    ['nothing after it', '%'],
    ['one digit', '%4'],
    ['a space for a digit', '%2 '],
    ['a broken escape after a good one', '%41%4'],
  ])('rejects a %% with %s', (_name, broken) => {
    expectError(Buffer.from(`a=1&card=4111111111111111${broken}&b=2`), /^Parameter 2 \("card"\) has a "%"/);
    expectError(Buffer.from(`a=1&4111111111111111${broken}=x`), /^Parameter 2 has a "%"/);
  });

  it.each([
    ['a cut sequence', 'c3'],
    ['a sequence that goes wrong', 'c328'],
    ['an overlong slash', 'c0af'],
    ['a surrogate', 'eda080'],
    ['a number beyond U+10FFFF', 'f4908080'],
    ['the byte order mark of UTF-16', 'fffe61'],
  ])('rejects %s as not UTF-8, escaped or not', (_name, hex) => {
    const escaped = hex.replace(/../g, '%$&');

    const problem = /^Parameter 3 \("card"\) is not valid UTF-8/;
    const before = Buffer.from('a=1&b=2&card=4111111111111111');
    for (const after of [Buffer.from(escaped), Buffer.from(hex, 'hex')])
      expectError(Buffer.concat([before, after]), problem);
  });

  const controls = [...Array(0x20).keys(), 0x7f].map((code) => String.fromCharCode(code));

  it.each(controls)('rejects the control character %j unless it is encoded, wherever it is', (control) => {
    for (const body of [`amount=4111%41+${control}`, `amo${control}unt=4111`, `&4111${control}`, control])
      expectError(Buffer.from(body), /has a control character that is not encoded/);
    const encoded = `%${control.charCodeAt(0).toString(16).padStart(2, '0')}`;
    expect(decoded(`a=${encoded}`)).toEqual([['a', control]]);
  });

  it.each(['\n', '\r'])('says why a form ends in a line break: %j', (end) => {
    const { detail } = errorOf(Buffer.from(`amount=1&client_orderid=lf-1${end}`));

    expect(detail).toMatch(
      /^Parameter 2 \("client_orderid"\) has .* write %0[AD]\. curl .* use --data @FILE\.$/,
    );
  });

  it('rejects text in UTF-16, and says what to send', () => {
    expectError(Buffer.from('amount=4111', 'utf16le'), /UTF-16 .* send the form as UTF-8\.$/);
  });

  it('rejects a byte order mark at its start unless it is encoded', () => {
    expectError(Buffer.from('\ufeffamount=4111'), /^The form begins with a byte order mark\./);
    expect(decoded('%EF%BB%BFa=1')).toEqual([['\ufeffa', '1']]);
    expect(decoded('a=\ufeff')).toEqual([['a', '\ufeff']]);
  });

  it.each(['destination-card-no', 'address.line12', 'x'.repeat(64)])(
    'names the parameter if its name is a word: %s',
    (name) => {
      expect(errorOf(Buffer.from(`a=1&&${name}=%`)).detail).toMatch(`Parameter 2 ("${name}") has`);
    },
  );

  it.each([
    ['digits', '4111111111111111=%'],
    ['digits between letters', 'a4b1c1d1=%'],
    ['an encoded name', 'Mark%20Cardholder=%'],
    ['a word that may be a part of a value', 'Cardholder%'],
    ['a long text', `${'x'.repeat(65)}=%`],
    ['nothing', '=%'],
  ])('names no parameter whose name is %s', (_name, body) => {
    expect(errorOf(Buffer.from(body)).detail).toMatch(/^Parameter 1 has a "%"/);
  });
});

function decoded(body: string) {
  return decodeForm(Buffer.from(body));
}

/** The position, and nothing of the content: it may be card data. */
function expectError(body: Buffer, detail: RegExp): void {
  const error = errorOf(body);

  expect(error.reason).toBe('malformed-form');
  expect(error.detail).toMatch(detail);
  for (const shown of [String(error), JSON.stringify(error), inspect(error, { showHidden: true })]) {
    expect(shown).not.toContain('4111');
  }
}

function errorOf(body: Buffer): ProxyError {
  try {
    decodeForm(body);
  } catch (error) {
    if (error instanceof ProxyError) return error;
    throw error;
  }
  throw new Error('the form was accepted');
}
