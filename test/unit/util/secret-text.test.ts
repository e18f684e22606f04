import { describe, expect, it } from '@jest/globals';
import { type SecretForm, secretText } from '../../../src/util/secret-text.ts';

const uuid = '7f1c2c5e-8a35-4a4f-9d53-0c6f5c3f9b10';
const utf16le = (text: string): Buffer => Buffer.from(text, 'utf16le');
const utf16be = (text: string): Buffer => utf16le(text).swap16();
const byteOrderMark = '\ufeff';

function read(content: Uint8Array | string, form: SecretForm): string {
  const result = secretText(content, form);
  return 'text' in result ? result.text : `fault: ${result.fault}`;
}

describe.each<SecretForm>(['token', 'key', 'passphrase'])('a secret (%s)', (form) => {
  it.each([
    ['alone', uuid],
    ['with a line feed at its end', `${uuid}\n`],
    ['with CR LF at its end', `${uuid}\r\n`],
    ['behind a byte order mark', `${byteOrderMark}${uuid}`],
  ])('%s is the same secret, as text and as bytes', (_name, content) => {
    expect(read(content, form)).toBe(uuid);
    expect(read(Buffer.from(content), form)).toBe(uuid);
  });

  it.each([
    ['a blank at its end', `${uuid} `, 'ends with a blank (U+0020); remove it'],
    ['a leading line feed', `\n${uuid}`, 'begins with a line end (U+000A); remove it'],
    ['two line feeds', `${uuid}\n\n`, 'ends with a line end (U+000A); remove it'],
    ['a carriage return alone', `${uuid}\r`, 'ends with a carriage return (U+000D); remove it'],
    ['a zero-width space', `${uuid}\u200b`, 'ends with a zero-width space (U+200B); remove it'],
    ['a NUL at its end', `${uuid}\u0000`, 'ends with the invisible character U+0000; remove it'],
    [
      'a byte order mark read as Latin-1',
      `\u00ef\u00bb\u00bf${uuid}`,
      'begins with a byte order mark that was read in another',
    ],
    ['a line end within', `${uuid}\n${uuid}`, 'has more than one line'],
  ])('with %s is refused', (_name, content, fault) => {
    expect(read(content, form)).toContain(`fault: ${fault}`);
    expect(read(Buffer.from(content), form)).toContain(`fault: ${fault}`);
  });

  it.each(['', '\n', '\r\n', ' ', ' \n', '\t\r\n', '\u00a0\n', byteOrderMark, `${byteOrderMark}\r\n`])(
    '%j is empty',
    (content) => {
      expect(read(content, form)).toBe('fault: is empty');
    },
  );

  it.each<[string, Uint8Array | string]>([
    ['little endian with its mark, as PowerShell writes it', utf16le(`${byteOrderMark}${uuid}\r\n`)],
    ['big endian with its mark', utf16be(`${byteOrderMark}${uuid}`)],
    ['big endian without a mark', utf16be(`${uuid}\n`)],
    ['that was read as UTF-8', utf16le(`${byteOrderMark}${uuid}`).toString('utf8')],
    ['with a mark, and no ASCII', utf16le(`${byteOrderMark}пароль`)],
  ])('in UTF-16 %s is recognized', (_name, content) => {
    expect(read(content, form)).toMatch(/^fault: is in UTF-16 or UTF-32; .*Out-File -Encoding ascii.*iconv/);
  });

  it.each([[[0x61, 0xff]], [[0xc3, 0x28]], [[0xed, 0xa0, 0x80]], [[0xe9]]])(
    'that is not UTF-8 is refused: %j',
    (bytes) => {
      expect(read(Buffer.from(bytes), form)).toBe('fault: is not text in UTF-8; store it again as text');
    },
  );

  it('that a tool damaged is refused', () => {
    expect(read(`${uuid}\ufffd`, form)).toContain('fault: has the character U+FFFD');
    expect(read(`${uuid}\ud800`, form)).toContain('fault: is not valid Unicode');
  });
});

describe.each<SecretForm>(['token', 'key'])('what is in the place of a secret (%s)', (form) => {
  it.each<[string, object]>([
    ['the sink of an agent with wrap_ttl', { token: 'hvs.x', wrapped_accessor: 'b' }],
    ['a login', { request_id: 'r', wrap_info: null, auth: { client_token: 't' } }],
    ['a list', [{ control_key: uuid }]],
  ])('is named: JSON, %s', (_name, value) => {
    const fault =
      /^fault: looks like JSON, such as a response of Vault, .*wrap_ttl or dh_type; store the value alone: /;
    expect(read(JSON.stringify(value), form)).toMatch(fault);
    expect(read(`${byteOrderMark}${JSON.stringify(value, null, 2)}\n\n`, form)).toMatch(fault);
  });

  it('is named: JSON that was cut off', () => {
    expect(read('{"request_id":"r","auth":{"client', form)).toContain('looks like JSON');
  });

  it.each([
    ['a name as the shell exports it', `export CONTROL_KEY=${uuid}`, 'begins with a name'],
    ['a variable of a shell', '${CONTROL_KEY}', 'is the text of a template'],
    ['a template of Vault Agent', '{{ .Data.data.control_key }}', 'is the text of a template'],
    ['what Helm has for no value', '<no value>', 'is the text of a template'],
    ['quotation marks of a word processor', `\u201c${uuid}\u201d`, 'is enclosed in quotation marks'],
    ['a tag character within', `abc\u{e0041}def`, 'has the invisible character U+E0041 within it'],
    ['a combining joiner at its end', `${uuid}\u034f`, 'ends with the invisible character U+034F'],
    ['quotation marks', `"${uuid}"`, 'is enclosed in quotation marks; remove them'],
    ['the name of a field', `control_key=${uuid}`, 'begins with a name, as a line of a .env file does'],
    ['the name of a variable', `VAULT_TOKEN: ${uuid}\n`, 'begins with a name'],
    ['a line feed as two characters', `${uuid}\\n`, 'ends with \\n, written as two characters'],
    ['PEM', '-----BEGIN PRIVATE KEY-----\nMII=\n-----END PRIVATE KEY-----\n', 'looks like PEM'],
    ['a no-break space within', `${uuid}\u00a0${uuid}`, 'has a no-break space (U+00A0) within it'],
    ['a zero-width space within', `abc\u200bdef`, 'has a zero-width space (U+200B) within it'],
  ])('is named: %s', (_name, content, fault) => {
    expect(read(content, form)).toContain(`fault: ${fault}`);
  });
});

it('a token is what a header can have', () => {
  expect(read('Bearer hvs.x', 'token')).toBe('fault: has a blank (U+0020) within it; store the value alone');
  expect(read('hvs.токен', 'token')).toContain('fault: has characters that are not printable ASCII');
  expect(read('hvs.\u2026', 'token')).toContain('fault: has characters that are not printable ASCII');
});

it('a key may have blanks and other letters within, and a passphrase anything in one line', () => {
  for (const text of ['&=%+ a  b ключ 🔑', 'bW9ua2V5Key=', 'bW9ua2Vkey=='])
    expect(read(text, 'key')).toBe(text);
  for (const text of ['"a"', '{"a":1}', 'a\tb', 'pass\u00a0phrase', 'ends in \\n'])
    expect(read(`${text}\n`, 'passphrase')).toBe(text);
});

it('PEM keeps its lines, and loses its byte order mark', () => {
  expect(read(`${byteOrderMark}-----BEGIN X-----\r\nabc\n\n`, 'pem')).toBe('-----BEGIN X-----\r\nabc\n\n');
  expect(read(' \n', 'pem')).toBe('fault: is empty');
  expect(read(utf16le('-----BEGIN X-----'), 'pem')).toContain('UTF-16');
});

it('no fault has anything of the secret', () => {
  const mark = 'MARK';
  const contents = [
    ` ${mark}`,
    `${mark}\n${mark}`,
    `{"${mark}":"${mark}"}`,
    `"${mark}"`,
    `${mark}\u00a0x`,
    `${mark}é`,
  ];
  for (const form of ['token', 'key', 'passphrase', 'pem'] as const)
    for (const content of contents) {
      const result = secretText(content, form);
      expect('fault' in result ? result.fault : '').not.toContain(mark);
    }
});
