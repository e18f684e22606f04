import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../src/errors.ts';
import { misnamedKeys, shownFields } from '../../../src/keys/field-names.ts';
import { age, describeKey, type KeyFields, parseKeys } from '../../../src/keys/key.ts';
import { sameContent, sameKey, type UsableKey, usableKeys } from '../../../src/keys/ring.ts';
import { encodeDer } from '../../support/der.ts';
import { privateKeyOf, vectorText } from '../../support/vectors.ts';
import { acme, textOf } from './scripted-source.ts';

const pkcs1 = vectorText('keys/rsa-2048-pkcs1.pem');
const pkcs8 = vectorText('keys/rsa-2048-pkcs8.pem');
const encrypted = vectorText('keys/rsa-2048-encrypted.pem');
const passphrase = 'test passphrase';
const legacy = createPrivateKey(pkcs1).export({
  type: 'pkcs1',
  format: 'pem',
  cipher: 'aes-256-cbc',
  passphrase,
});
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

const base64 = (text: string | Buffer): string => Buffer.from(text).toString('base64');
const labelled = (label: string): string => `-----BEGIN ${label}-----\nAAAA\n-----END ${label}-----\n`;
const pem = ({ privateKey }: { privateKey: KeyObject }): string =>
  privateKey.export({ type: 'pkcs8', format: 'pem' });
const der = createPrivateKey(pkcs8).export({ type: 'pkcs8', format: 'der' });

/** PKCS#1 (RFC 8017 appendix A.1.2) with a modulus of the given size; generating such a key takes minutes. */
function pkcs1WithModulusOf(bits: number): string {
  const small = encodeDer(0x02, Buffer.from([0x11]));
  const large = encodeDer(0x02, Buffer.from([0]), Buffer.alloc(bits / 8, 0xff));
  const version = encodeDer(0x02, Buffer.from([0]));
  const all = encodeDer(0x30, version, large, small, large, small, small, small, small, small);
  const label = 'RSA PRIVATE KEY';
  return `-----BEGIN ${label}-----\n${base64(all).replaceAll(/.{64}/g, '$&\n')}\n-----END ${label}-----\n`;
}

describe('a version of a secret', () => {
  it('has a control key and a private key, both with its version and times', () => {
    const about = { version: 3, createdAt: new Date(1000), supersededAt: new Date(2000) };
    expect(parseKeys({ control_key: 'abc', private_key: pkcs8 }, about)).toEqual([
      expect.objectContaining({ kind: 'control_key', ...about }),
      expect.objectContaining({ kind: 'private_key', fingerprint, ...about }),
    ]);
  });

  it('has no key for an absent field, and a usable key beside an unusable one', () => {
    expect(parse({ passphrase })).toEqual([]);
    expect(parse({ control_key: '', private_key: pkcs8 })).toMatchObject([
      { kind: 'control_key', version: 7, problem: 'the control key (field control_key) is empty' },
      { kind: 'private_key', fingerprint },
    ]);
  });

  it('shows nothing of its fields, whether they can be used or not', () => {
    const mark = 'MARKmark';
    const markedPem = `-----BEGIN PRIVATE KEY-----\n${mark}\n-----END PRIVATE KEY-----\n`;
    const unusable = [
      ...parse({ control_key: { mark }, private_key: mark }),
      ...parse({ control_key: `${mark}\ud800`, private_key: markedPem }),
      ...parse({ private_key: encrypted, passphrase: mark }),
      ...parse({ private_key: encrypted, passphrase: { mark } }),
    ];
    expect(unusable.filter((entry) => 'problem' in entry)).toHaveLength(6);
    const all = [...unusable, ...parse({ control_key: mark, private_key: pkcs8 })];
    const shown = `${inspect(all, { depth: 9, showHidden: true })} ${JSON.stringify(all)}`;
    for (const secret of ['MARK', 'BEGIN', pkcs8.split('\n')[3] ?? '']) expect(shown).not.toContain(secret);
  });
});

it.each([
  ['abc\n', 'abc'],
  ['abc\r\n', 'abc'],
  ['\ufeffabc\n', 'abc'],
  ['&=%+ a  b ключ 🔑', '&=%+ a  b ключ 🔑'],
])(
  'a control key loses a byte order mark and one newline at its end, as in files, and nothing else: %j',
  (text, read) => {
    expect(textOf(usable({ control_key: text }))).toBe(read);
  },
);

it('a key that is too long does no harm to the next one that is read', () => {
  expect(problem({ private_key: pkcs1WithModulusOf(16_392) })).toContain('is too long');
  expect(problem({ private_key: pkcs8 })).toBe('none');
});

const place = 'the control key (field control_key)';
const needsPassphrase = 'the private key is encrypted and needs a passphrase';

it.each<[fields: KeyFields, problem: string]>([
  [{ control_key: 'abc\n\n' }, `${place} ends with a line end (U+000A); remove it`],
  [{ control_key: ' a b\t ' }, `${place} begins with a blank (U+0020); remove it`],
  [{ control_key: '\r\n' }, `${place} is empty`],
  [{ control_key: ['abc'] }, 'the control key is not a string'],
  // It is encoded to sign.
  [{ control_key: 'abc\ud800' }, 'is not valid Unicode'],
  [{ private_key: null }, 'the private key is not a string'],
  [{ private_key: pkcs8.split('\n').toSpliced(5, 3).join('\n') }, 'is damaged: its PEM text cannot be'],
  [{ private_key: encrypted }, needsPassphrase],
  [{ private_key: encrypted, passphrase: '' }, needsPassphrase],
  [{ private_key: legacy }, needsPassphrase],
  [{ private_key: legacy, passphrase: 'guess' }, 'wrong passphrase, or a cipher that is not supported'],
  [{ private_key: encrypted, passphrase: 4711 }, 'the passphrase of the private key is not a string'],
  [{ private_key: pem(generateKeyPairSync('ed25519')) }, 'is of type ed25519; an RSA key is needed'],
  [{ private_key: pkcs1WithModulusOf(2040) }, 'RSA key of 2040 bits is too weak; use at least 2048'],
  [{ private_key: pkcs1WithModulusOf(2048) }, 'none'],
  [{ private_key: pkcs1WithModulusOf(16_384) }, 'none'],
  [{ private_key: pkcs1WithModulusOf(16_392) }, 'RSA key of 16392 bits is too long; use at most 16384'],
])('the problem of a key is named: %#', (fields, expected) => {
  expect(problem(fields)).toContain(expected);
});

it.each<[string, KeyFields]>([
  ['PKCS#8', { private_key: pkcs8 }],
  ['encrypted PKCS#8', { private_key: encrypted, passphrase }],
  ['its passphrase ends with a line', { private_key: encrypted, passphrase: `${passphrase}\n` }],
  ['legacy encrypted PKCS#1', { private_key: legacy, passphrase }],
  ['with a passphrase it does not need', { private_key: pkcs8, passphrase }],
  ['behind a byte order mark', { private_key: `\ufeff${pkcs8}` }],
  ['with CR LF and text around it', { private_key: `Bag\r\n${pkcs1.replaceAll('\n', '\r\n')}\r\nend` }],
  ['behind its certificate', { private_key: labelled('CERTIFICATE') + pkcs8.trimEnd() }],
  ['behind attributes with a path', { private_key: `friendlyName: C:\\new\\rsa\n${pkcs8}` }],
  ['before a note', { private_key: `${pkcs8}a note with \\n in it\n` }],
  ['with blanks behind its lines', { private_key: pkcs8.replaceAll('\n', ' \n') }],
  ['in bytes', { private_key: Buffer.from(pkcs8) }],
])('a private key is read: %s', (_name, fields) => {
  const { key, fingerprint: read } = usable(fields);
  expect(read).toBe(fingerprint);
  expect('privateKey' in key && key.privateKey.equals(privateKeyOf('rsa-2048-pkcs8.pem'))).toBe(true);
});

describe('in the place of a private key', () => {
  const isBase64 = /is PEM in base64 once more; decode it: base64 -d/;
  const noPem = /is not a PEM private key; store the file of the key whole, from its first line/;
  const lostLines = /has lost its line ends/;
  it.each<[string, string | Uint8Array, RegExp]>([
    ['an OpenSSH key', labelled('OPENSSH PRIVATE KEY'), /format of OpenSSH; .*ssh-keygen -p -m PEM/],
    ['a PuTTY key', 'PuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\n', /format of PuTTY; .*puttygen/],
    ['a PGP key', labelled('PGP PRIVATE KEY BLOCK'), /is a PGP key/],
    ['a public key', vectorText('keys/rsa-2048-public.pem'), /is a public key; store the private key/],
    ['a public key of OpenSSH', 'ssh-rsa AAAAB3NzaC1yc2E= me@host', /is a public key/],
    ['a certificate', labelled('CERTIFICATE'), /is a certificate; store the private key/],
    ['a certificate request', labelled('CERTIFICATE REQUEST'), /is a certificate request/],
    ['PEM in base64 in lines', base64(pkcs1).replaceAll(/.{76}/g, '$&\n'), isBase64],
    ['PEM in base64 twice', base64(base64(pkcs8)), isBase64],
    ['DER in base64', base64(der), /is base64 without the lines -----BEGIN and -----END/],
    ['DER', der, /is binary, such as DER or PKCS#12; .*openssl pkey -inform DER/],
    ['a JSON Web Key', '{"kty":"RSA","n":"x","e":"AQAB","d":"x"}', /looks like JSON; store the PEM text/],
    ['junk', 'name=value', noPem],
    ['hexadecimal digits', Buffer.from(pkcs8).toString('hex'), noPem],
    ['a key whose first line was cut', pkcs8.replace(/^-/, ''), noPem],
    ['UTF-16', Buffer.from(`\ufeff${pkcs8}`, 'utf16le'), /is in UTF-16 or UTF-32/],
    ['PEM with \\r\\n', pkcs1.replaceAll('\n', '\\r\\n'), /written as the two characters \\n; .*printf/],
    ['PEM with blanks for line ends', pkcs8.replaceAll('\n', ' '), lostLines],
    ['PEM without line ends', pkcs8.replaceAll('\n', ''), lostLines],
    ['PEM that was cut off', pkcs8.slice(0, 800), /has no line -----END/],
  ])('%s is named', (_name, field, expected) => {
    expect(problem({ private_key: field })).toMatch(/^the private key \(field private_key\) /);
    expect(problem({ private_key: field })).toMatch(expected);
  });
});

describe('a key in another field', () => {
  const secret = 'MARK-7f1c2c5e';
  const rename = (name: string): string => `but ${name}, which is not read; rename it`;
  const below = (name: string): string => `but one like it below ${name}`;
  it.each<[fields: object, kind: string, problem: string]>([
    [{ 'private-key': secret }, 'private_key', rename('private-key')],
    [{ 'private_key.pem': secret }, 'private_key', rename('private_key.pem')],
    [{ 'control-key': secret }, 'control_key', rename('control-key')],
    [{ contol_key: secret }, 'control_key', rename('contol_key')],
    [{ 'transit-key': 'acme:3' }, 'private_key', rename('transit-key')],
    [{ value: JSON.stringify({ control_key: secret }) }, 'control_key', below('value')],
    [{ id: 'r', data: { data: { control_key: secret }, metadata: {} } }, 'control_key', below('data')],
    [{ keys: { PrivateKey: secret } }, 'private_key', below('keys')],
  ])('is named, with the fields of the secret: %j', (fields, kind, text) => {
    const [found, ...more] = misnamedKeys(fields);
    expect(more).toEqual([]);
    expect(found).toEqual({ kind, problem: expect.stringContaining(text) });
    expect(found?.problem).toContain('(its fields: ');
    expect(found?.problem).not.toContain(secret);
    expect(parse(fields)).toEqual([{ ...found, version: 7 }]);
  });

  it('of both kinds are two problems', () => {
    const both = misnamedKeys({ data: { control_key: secret, private_key: secret } });
    expect(both.map(({ kind }) => kind)).toEqual(['control_key', 'private_key']);
  });

  it.each<[string, object]>([
    ['beside the right one', { control_key: secret, 'control-key': secret }],
    ['beside a key in Transit', { transit_key: 'acme:3', PRIVATE_KEY: secret }],
    ['that was emptied', { 'private-key': '' }],
    ['that is something else', { public_key: secret, passphrase: secret, old: { note: secret } }],
  ])('%s is no problem', (_name, fields) => {
    expect(misnamedKeys(fields)).toEqual([]);
  });

  it.each([
    [{}, ' (it has no fields)'],
    [{ note: 1, '7f1c2c5e-8a35-4a4f': 1, 'a b': 1 }, ' (its fields: note, 2 more)'],
    [{ d6a3f1b29c: 1 }, ' (its fields: 1 more)'],
    [
      Object.fromEntries('abcdefghijkl'.split('').map((name) => [name, 1])),
      ' (its fields: a, b, c, d, e, f, g, h, i, j, 2 more)',
    ],
  ])('is not shown unless its name is a word, and no more than ten are: %j', (fields, text) => {
    expect(shownFields(fields)).toBe(text);
  });
});

describe('two keys', () => {
  const other = pem(generateKeyPairSync('rsa', { modulusLength: 2048 }));
  it.each<[string, KeyFields, KeyFields, boolean]>([
    ['in other encodings', { private_key: pkcs8 }, { private_key: pkcs1 }, true],
    ['one of them with a line end', { control_key: 'abc' }, { control_key: 'abc\n' }, true],
    ['that sign differently', { private_key: pkcs8 }, { private_key: other }, false],
    ['one of which is longer', { control_key: 'abc' }, { control_key: 'abcd' }, false],
    ['of different kinds', { control_key: 'abc' }, { private_key: pkcs8 }, false],
    ['with the same short fingerprint', { control_key: 'key-220' }, { control_key: 'key-493' }, false],
  ])('are equal if they sign alike: %s', (_name, one, another, areEqual) => {
    expect(sameKey({ ...usable(one), version: 9 }, usable(another))).toBe(areEqual);
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
  expect(usable({ control_key: 'key-220' }).fingerprint).toBe(usable({ control_key: 'key-493' }).fingerprint);
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

const now = Date.UTC(2026, 0, 15, 12);
const gracePeriod = 86_400_000;
const superseded = { version: 1, supersededAt: new Date(now - gracePeriod - 1) };
const whose = 'for login "acme" in environment "sandbox". Ask the platform team to add it.';

it.each([
  [
    'key-unusable',
    'private_key',
    parse({ private_key: 'MARK: no PEM' }),
    'Version 7 of login "acme" in environment "sandbox": the private key (field private_key) is not a PEM private key; store the file of the key whole, from its first line to its last.',
  ],
  [
    'key-missing',
    'control_key',
    parse({ private_key: pkcs8 }),
    `No control key (field control_key) ${whose}`,
  ],
  [
    'key-missing',
    'private_key',
    parse({ control_key: 'c1' }),
    `No RSA private key (field private_key) ${whose}`,
  ],
  ['key-missing', 'control_key', parseKeys({ control_key: 'c1' }, superseded), expect.anything()],
] as const)('a login without one is rejected as %s of %s, and no content is shown', (...row) => {
  const [reason, kind, ring, detail] = row;
  const find = (): unknown => usableKeys(acme, ring, kind, now, gracePeriod);
  expect(find).toThrow(ProxyError);
  expect(find).toThrow(expect.objectContaining({ reason, detail }));
});
