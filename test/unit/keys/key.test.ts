import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { age, describeKey, type KeyFields, parseKeys } from '../../../src/keys/key.ts';
import { sameContent, sameKey, type UsableKey } from '../../../src/keys/ring.ts';
import { reveal } from '../../../src/secret.ts';
import { privateKeyOf, vectorText } from '../../support/vectors.ts';

const pkcs1 = vectorText('keys/rsa-2048-pkcs1.pem');
const pkcs8 = vectorText('keys/rsa-2048-pkcs8.pem');
const encrypted = vectorText('keys/rsa-2048-encrypted.pem');
const passphrase = 'test passphrase';
/** openssl pkey -in rsa-2048-pkcs8.pem -pubout -outform DER | sha256sum */
const fingerprint = '4d171a1336111d276a2f675497a130a261c9d55e45c07775bd71aa601e6231c8';

const parse = (fields: KeyFields) => parseKeys(fields, { version: 7 });

function only(fields: KeyFields) {
  const [entry, ...others] = parse(fields);
  if (entry === undefined || others.length > 0) throw new Error('not exactly one entry');
  return entry;
}

function usable(fields: KeyFields): UsableKey {
  const entry = only(fields);
  if ('problem' in entry) throw new Error(entry.problem);
  return entry;
}

function problem(fields: KeyFields): string {
  const entry = only(fields);
  return 'problem' in entry ? entry.problem : 'none';
}

function controlKeyText(text: string): string {
  const { key } = usable({ control_key: text });
  return key.kind === 'control_key' ? reveal(key.secret) : 'no control key';
}

function pem(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' });
}

/** PKCS#1 (RFC 8017 appendix A.1.2) with a modulus of the given size; generating such a key takes minutes. */
function pkcs1WithModulusOf(bits: number): string {
  const version = element(0x02, Buffer.from([0]));
  const small = element(0x02, Buffer.from([0x11]));
  const large = element(0x02, Buffer.concat([Buffer.from([0]), Buffer.alloc(bits / 8, 0xff)]));
  const parts = [version, large, small, large, small, small, small, small, small];
  const lines = element(0x30, Buffer.concat(parts))
    .toString('base64')
    .match(/.{1,64}/g);
  const base64 = (lines ?? []).join('\n');
  return `-----BEGIN RSA PRIVATE KEY-----\n${base64}\n-----END RSA PRIVATE KEY-----\n`;
}

function element(tag: number, content: Buffer): Buffer {
  if (content.length < 128) return Buffer.concat([Buffer.from([tag, content.length]), content]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(content.length);
  return Buffer.concat([Buffer.from([tag, 0x84]), length, content]);
}

describe('a version of a secret', () => {
  it('has a control key and a private key, both with its version and times', () => {
    const about = { version: 3, createdAt: new Date(1000), supersededAt: new Date(2000) };
    const keys = parseKeys({ control_key: 'abc', private_key: pkcs8 }, about);
    expect(keys).toEqual([
      expect.objectContaining({ kind: 'control_key', ...about }),
      expect.objectContaining({ kind: 'private_key', ...about }),
    ]);
  });

  it('has no key for an absent field', () => {
    expect(parse({})).toEqual([]);
    expect(parse({ passphrase })).toEqual([]);
    expect(parse({ control_key: 'abc' })).toHaveLength(1);
    expect(parse({ private_key: pkcs1 })).toHaveLength(1);
  });

  it('keeps a usable key beside an unusable one', () => {
    const [controlKey, privateKey] = parse({ control_key: '', private_key: pkcs8 });
    expect(controlKey).toEqual({
      kind: 'control_key',
      version: 7,
      problem: 'the control key (field control_key) is empty',
    });
    expect(privateKey).toMatchObject({ kind: 'private_key', fingerprint });
  });
});

describe('a control key', () => {
  it('loses a byte order mark and one newline at its end, as in files, and nothing else', () => {
    expect(controlKeyText('abc\n')).toBe('abc');
    expect(controlKeyText('abc\r\n')).toBe('abc');
    expect(controlKeyText('\ufeffabc\n')).toBe('abc');
    expect(controlKeyText('&=%+ a  b ключ 🔑')).toBe('&=%+ a  b ключ 🔑');
  });

  it('with anything else around it is refused, and its place is named', () => {
    const place = 'the control key (field control_key)';
    expect(problem({ control_key: 'abc\n\n' })).toBe(`${place} ends with a line end (U+000A); remove it`);
    expect(problem({ control_key: ' a b\t ' })).toBe(`${place} begins with a blank (U+0020); remove it`);
    expect(problem({ control_key: 'abc\u0000' })).toContain(`${place} is in UTF-16`);
  });

  it.each(['', '\n', '\r\n'])('cannot be empty: %j', (text) => {
    expect(problem({ control_key: text })).toBe('the control key (field control_key) is empty');
  });

  it.each([[7], [null], [true], [['abc']], [{ text: 'abc' }]])('must be a string, not %p', (field) => {
    expect(problem({ control_key: field })).toBe('the control key is not a string');
  });

  it('must be text that UTF-8 can express, since it is encoded to sign', () => {
    expect(problem({ control_key: 'abc\ud800' })).toContain('is not valid Unicode');
  });

  it('is hidden when it is printed', () => {
    const entry = only({ control_key: 'MARK-control-key' });
    expect(`${inspect(entry, { depth: 9, showHidden: true })} ${JSON.stringify(entry)}`).not.toContain(
      'MARK',
    );
  });
});

describe('a private key', () => {
  const legacyEncrypted = createPrivateKey(pkcs1).export({
    type: 'pkcs1',
    format: 'pem',
    cipher: 'aes-256-cbc',
    passphrase,
  });

  it.each<[string, KeyFields]>([
    ['PKCS#1', { private_key: pkcs1 }],
    ['PKCS#8', { private_key: pkcs8 }],
    ['encrypted PKCS#8', { private_key: encrypted, passphrase }],
    [
      'encrypted PKCS#8 whose passphrase ends in a line break',
      { private_key: encrypted, passphrase: `${passphrase}\n` },
    ],
    ['legacy encrypted PKCS#1', { private_key: legacyEncrypted, passphrase }],
    ['PKCS#8 with a passphrase it does not need', { private_key: pkcs8, passphrase }],
    [
      'PKCS#8 with CR LF and text around it',
      { private_key: `Bag\r\n${pkcs8.replaceAll('\n', '\r\n')}\r\nend` },
    ],
  ])('is read as %s', (_name, fields) => {
    const entry = usable(fields);
    expect(entry.fingerprint).toBe(fingerprint);
    expect('privateKey' in entry.key && entry.key.privateKey.equals(privateKeyOf('rsa-2048-pkcs8.pem'))).toBe(
      true,
    );
  });

  it.each(['junk', 'name=value', '-----BEGIN NOTHING-----'])('must be a PEM private key (%#)', (field) => {
    expect(problem({ private_key: field })).toContain(
      'the private key (field private_key) is not a PEM private key',
    );
  });

  it.each([7, null, { pem: pkcs8 }])('must be a string, not %p', (field) => {
    expect(problem({ private_key: field })).toBe('the private key is not a string');
  });

  it('is damaged if its PEM text cannot be decoded', () => {
    const cut = pkcs8.split('\n').toSpliced(5, 3).join('\n');
    expect(problem({ private_key: cut })).toMatch(/is damaged: its PEM text cannot be decoded$/);
  });

  it.each([undefined, ''])('that is encrypted needs a passphrase, which %j is not', (text) => {
    const needed = 'the private key is encrypted and needs a passphrase';
    expect(problem({ private_key: encrypted, passphrase: text })).toBe(needed);
    expect(problem({ private_key: legacyEncrypted, passphrase: text })).toBe(needed);
  });

  it('that is encrypted cannot be read with a wrong passphrase', () => {
    const wrong = 'the private key cannot be decrypted: wrong passphrase, or a cipher that is not supported';
    expect(problem({ private_key: encrypted, passphrase: 'guess' })).toBe(wrong);
    expect(problem({ private_key: legacyEncrypted, passphrase: 'guess' })).toBe(wrong);
  });

  it('accepts a passphrase only if it is a string', () => {
    const fields = { private_key: encrypted, passphrase: 4711 };
    expect(problem(fields)).toBe('the passphrase of the private key is not a string');
  });

  it('must be an RSA key', () => {
    const ec = pem(generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey);
    const edwards = pem(generateKeyPairSync('ed25519').privateKey);
    const pss = pem(generateKeyPairSync('rsa-pss', { modulusLength: 2048 }).privateKey);
    expect(problem({ private_key: ec })).toBe('the private key is of type ec; an RSA key is needed');
    expect(problem({ private_key: edwards })).toBe(
      'the private key is of type ed25519; an RSA key is needed',
    );
    expect(problem({ private_key: pss })).toBe('the private key is of type rsa-pss; an RSA key is needed');
  });

  it('must have at least 2048 bits', () => {
    const weak = pem(generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey);
    expect(problem({ private_key: weak })).toBe('RSA key of 1024 bits is too weak; use at least 2048');
    expect(problem({ private_key: pkcs1WithModulusOf(2040) })).toContain('too weak');
    expect(problem({ private_key: pkcs1WithModulusOf(2048) })).toBe('none');
  });

  it('must have at most 16384 bits', () => {
    expect(problem({ private_key: pkcs1WithModulusOf(16_384) })).toBe('none');
    expect(problem({ private_key: pkcs1WithModulusOf(16_392) })).toBe(
      'RSA key of 16392 bits is too long; use at most 16384',
    );
  });

  it('is kept without its text', () => {
    const printed = inspect(only({ private_key: pkcs8 }), { depth: 9, showHidden: true });
    expect(printed).not.toContain('BEGIN');
    expect(printed).not.toContain(pkcs8.split('\n')[3]);
  });
});

it('no problem shows anything of the fields', () => {
  const mark = 'MARKmark';
  const markedPem = `-----BEGIN PRIVATE KEY-----\n${mark}\n-----END PRIVATE KEY-----\n`;
  const entries = [
    ...parse({ control_key: { mark }, private_key: mark }),
    ...parse({ control_key: `${mark}\ud800`, private_key: markedPem }),
    ...parse({ private_key: encrypted, passphrase: mark }),
    ...parse({ private_key: encrypted, passphrase: { mark } }),
  ];
  expect(entries.filter((entry) => 'problem' in entry)).toHaveLength(6);
  expect(inspect(entries, { depth: 9 })).not.toContain('MARK');
});

describe('two keys', () => {
  const other = pem(generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey);

  it('are equal if they sign alike, whatever their versions and encodings', () => {
    const [newer] = parseKeys({ private_key: pkcs8 }, { version: 9 });
    expect(newer !== undefined && 'key' in newer && sameKey(newer, usable({ private_key: pkcs1 }))).toBe(
      true,
    );
    expect(sameKey(usable({ control_key: 'abc' }), usable({ control_key: 'abc\n' }))).toBe(true);
  });

  it('differ if they sign differently, or are of different kinds', () => {
    expect(sameKey(usable({ private_key: pkcs8 }), usable({ private_key: other }))).toBe(false);
    expect(sameKey(usable({ control_key: 'abc' }), usable({ control_key: 'abcd' }))).toBe(false);
    expect(sameKey(usable({ control_key: 'abc' }), usable({ private_key: pkcs8 }))).toBe(false);
  });

  it('are not equal because of the fingerprint of a control key, which is short', () => {
    const [one, another] = [usable({ control_key: 'key-220' }), usable({ control_key: 'key-493' })];
    expect([one.fingerprint, another.fingerprint]).toEqual(['2eff', '2eff']);
    expect(sameKey(one, another)).toBe(false);
  });

  it('that cannot be used are equal if they have the same problem', () => {
    const empty = only({ control_key: '' });
    expect(sameContent(empty, only({ control_key: '\n' }))).toBe(true);
    expect(sameContent(empty, only({ control_key: 7 }))).toBe(false);
    expect(sameContent(empty, only({ control_key: 'abc' }))).toBe(false);
    expect(sameContent(only({ control_key: 'abc' }), empty)).toBe(false);
    expect(sameContent({ ...empty, kind: 'private_key' }, empty)).toBe(false);
  });
});

it('a key is described by what is public of it', () => {
  // printf 'countersign control key fingerprint' | openssl dgst -sha256 -hmac abc | cut -c 18-21
  const controlKey = { kind: 'control_key', fingerprint: '731d' };
  expect(describeKey(usable({ control_key: 'abc' }))).toEqual(controlKey);
  expect(describeKey(usable({ control_key: '\ufeffabc\r\n' }))).toEqual(controlKey);
  expect(describeKey(usable({ control_key: 'abd' })).fingerprint).toMatch(/^(?!731d)[0-9a-f]{4}$/);
  expect(describeKey(only({ private_key: '' }))).toEqual({
    kind: 'private_key',
    problem: 'the private key (field private_key) is empty',
  });
  expect(describeKey(usable({ private_key: pkcs8 }))).toEqual({
    kind: 'private_key',
    fingerprint,
    bits: 2048,
    publicKey: expect.stringMatching(/^-----BEGIN PUBLIC KEY-----\n[^-]+\n-----END PUBLIC KEY-----$/),
  });
});

it.each([
  [-1, '0s'],
  [59, '59s'],
  [60, '1m'],
  [3_599, '59m'],
  [3_600, '1h'],
  [86_399, '23h'],
  [86_400, '1d'],
  [40 * 86_400, '40d'],
])('an age of %d seconds is %s', (seconds, text) => {
  const now = Date.UTC(2026, 0, 15);
  expect(age(new Date(now - seconds * 1000 - 999), now)).toBe(text);
  expect(age(undefined, now)).toBe('');
});
