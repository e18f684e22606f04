import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { parseKeys } from '../../../src/keys/key.ts';
import { vectorText } from '../../support/vectors.ts';

const pkcs8 = vectorText('keys/rsa-2048-pkcs8.pem');
const pkcs1 = vectorText('keys/rsa-2048-pkcs1.pem');
const encrypted = vectorText('keys/rsa-2048-encrypted.pem');
const publicKey = vectorText('keys/rsa-2048-public.pem');
const base64 = (text: string | Buffer): string => Buffer.from(text).toString('base64');
const labelled = (label: string): string => `-----BEGIN ${label}-----\nAAAA\n-----END ${label}-----\n`;
const der = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({
  type: 'pkcs8',
  format: 'der',
});

function problem(field: string | Uint8Array): string {
  const [entry] = parseKeys({ private_key: field }, { version: 1 });
  return entry !== undefined && 'problem' in entry ? entry.problem : 'none';
}

describe('in the place of a private key', () => {
  it.each<[string, string | Uint8Array, RegExp]>([
    ['an OpenSSH key', labelled('OPENSSH PRIVATE KEY'), /format of OpenSSH; .*ssh-keygen -p -m PEM/],
    ['a PuTTY key', 'PuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\n', /format of PuTTY; .*puttygen/],
    ['a PGP key', labelled('PGP PRIVATE KEY BLOCK'), /is a PGP key/],
    ['a public key', publicKey, /is a public key; store the private key/],
    ['a PKCS#1 public key', labelled('RSA PUBLIC KEY'), /is a public key/],
    ['a public key of OpenSSH', 'ssh-rsa AAAAB3NzaC1yc2E= me@host', /is a public key/],
    ['another public key of OpenSSH', 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 me@host', /is a public key/],
    ['a certificate', labelled('CERTIFICATE'), /is a certificate; store the private key/],
    ['a trusted certificate', labelled('TRUSTED CERTIFICATE'), /is a certificate;/],
    ['a certificate request', labelled('CERTIFICATE REQUEST'), /is a certificate request/],
    ['PEM in base64', base64(pkcs8), /is PEM in base64 once more; decode it: base64 -d/],
    ['PEM in base64 in lines', base64(pkcs1).replaceAll(/.{76}/g, '$&\n'), /is PEM in base64 once more/],
    ['PEM in base64url', Buffer.from(encrypted).toString('base64url'), /is PEM in base64 once more/],
    ['PEM in base64 twice', base64(base64(pkcs8)), /is PEM in base64 once more/],
    ['an OpenSSH key in base64', base64(labelled('OPENSSH PRIVATE KEY')), /is PEM in base64 once more/],
    ['DER in base64', base64(der), /is base64 without the lines -----BEGIN and -----END/],
    [
      'PEM without its first and last line',
      pkcs8.split('\n').slice(1, -2).join('\n'),
      /is base64 without the lines/,
    ],
    ['DER', der, /is binary, such as DER or PKCS#12; .*openssl pkey -inform DER/],
    ['a JSON Web Key', '{"kty":"RSA","n":"x","e":"AQAB","d":"x"}', /looks like JSON; store the PEM text/],
    [
      'JSON with the key',
      JSON.stringify({ private_key: publicKey }).replaceAll('PUBLIC', 'X'),
      /looks like JSON/,
    ],
    ['a name', '/run/keys/private_key.pem', /is not a PEM private key; store the file/],
    ['hexadecimal digits', Buffer.from(pkcs8).toString('hex'), /is not a PEM private key; store the file/],
    ['a key whose first line was cut', pkcs8.replace(/^-/, ''), /is not a PEM private key; store the file/],
    ['UTF-16', Buffer.from(`\ufeff${pkcs8}`, 'utf16le'), /is in UTF-16 or UTF-32/],
    ['bytes', Buffer.from([0xff, 0x61, 0x62, 0x63]), /is not text in UTF-8/],
    ['nothing', '\r\n', /is empty/],
  ])('%s is named', (_name, field, expected) => {
    expect(problem(field)).toMatch(/^the private key \(field private_key\) /);
    expect(problem(field)).toMatch(expected);
  });

  it.each([
    ['\\n', pkcs8.replaceAll('\n', '\\n')],
    ['\\r\\n', pkcs1.replaceAll('\n', '\\r\\n')],
    ['\\n, and real ones', pkcs8.replaceAll('\n', '\\n\n')],
    ['\\n in quotation marks', JSON.stringify(pkcs8)],
    ['\\n of an encrypted key', encrypted.replaceAll('\n', '\\n')],
  ])('PEM with %s as characters is named', (_name, field) => {
    expect(problem(field)).toMatch(/has its line ends written as the two characters \\n; .*printf '%b'/);
  });

  it.each([
    ['blanks', pkcs8.replaceAll('\n', ' ')],
    ['nothing', pkcs8.replaceAll('\n', '')],
    ['carriage returns', pkcs8.replaceAll('\n', '\r')],
    ['nothing (PKCS#1)', pkcs1.replaceAll('\n', '')],
    ['the literal text of a template', pkcs8.replaceAll('\n', '<br>')],
  ])('PEM that has %s in place of line ends is named', (_name, field) => {
    expect(problem(field)).toMatch(/has lost its line ends/);
  });

  it('PEM that was cut off is named', () => {
    expect(problem(pkcs8.slice(0, 800))).toMatch(/has no line -----END/);
  });
});

it.each([
  ['behind a byte order mark', `\ufeff${pkcs8}`],
  ['with CR LF', pkcs1.replaceAll('\n', '\r\n')],
  ['without a line end at its end', pkcs8.trimEnd()],
  ['with white space around it', `\n \n${pkcs8}\n\n`],
  ['behind its certificate', labelled('CERTIFICATE') + pkcs8],
  ['behind attributes with a path', `Bag Attributes\n    friendlyName: C:\\new\\rsa\n${pkcs8}`],
  ['before a note', `${pkcs8}a note with \\n in it\n`],
  ['with blanks behind its lines', pkcs8.replaceAll('\n', ' \n')],
])('a PEM private key %s is read', (_name, field) => {
  expect(problem(field)).toBe('none');
  expect(problem(Buffer.from(field))).toBe('none');
});
