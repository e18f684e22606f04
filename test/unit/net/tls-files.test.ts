import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { readTlsFiles, type TlsFiles } from '../../../src/net/tls-files.ts';
import { outdatedLists, untimelyParts, validityOf } from '../../../src/net/tls-material.ts';
import { encodeDer } from '../../support/der.ts';
import { Folder } from '../../support/folder.ts';
import { describeWith, itWith } from '../../support/requires.ts';
import { Ca, type Issued } from '../../support/stub-vault/certificates.ts';

let folder: Folder;
let ca: Ca;
let own: Issued;
let faulty: Record<'crl' | 'cut' | 'encrypted' | 'folder' | 'foreign' | 'large' | 'missing' | 'weak', string>;

/** Has the times of a revocation list, and nothing else of one. */
function listLike(): string {
  const times = ['260101000000Z', '360101000000Z'].map((time) => encodeDer(0x17, Buffer.from(time)));
  const base64 = encodeDer(0x30, encodeDer(0x30, ...times)).toString('base64');
  return `-----BEGIN X509 CRL-----\n${base64}\n-----END X509 CRL-----\n`;
}

describeWith('openssl')('PEM files of one connection', () => {
  beforeAll(() => {
    folder = new Folder();
    ca = new Ca(folder.path, 'ca');
    own = ca.issue('own');
    const weak = ['-x509', '-newkey', 'rsa:1024', '-nodes', '-subj', '/CN=weak'];
    execFileSync('openssl', ['req', ...weak, '-keyout', folder.at('weak.key'), '-out', folder.at('weak')], {
      stdio: 'ignore',
    });
    const encrypt = ['pkcs8', '-topk8', '-passout', 'pass:x', '-in', own.keyFile];
    faulty = {
      crl: folder.file('crl', listLike()),
      cut: folder.file('cut', readFileSync(own.certFile, 'utf8').replace(/[^-]{100}-----END/, '\n-----END')),
      encrypted: folder.file('encrypted', execFileSync('openssl', encrypt, { encoding: 'utf8' })),
      folder: folder.at('folder'),
      foreign: ca.issue('foreign').keyFile,
      large: folder.file('large', 'x'.repeat(4_194_305)),
      missing: folder.at('missing'),
      weak: folder.at('weak'),
    };
    mkdirSync(faulty.folder);
  });
  afterAll(() => folder.remove());

  it('are read as they are if all are valid', async () => {
    const crl = folder.file('list', ca.revocationList());
    const files = { cert: own.certFile, key: own.keyFile, ca: ca.file, crl, proxyCa: ca.file };
    const texts = Object.entries(files).map(([part, file]) => [part, readFileSync(file, 'utf8')]);
    expect(await readTlsFiles(files)).toEqual({ material: Object.fromEntries(texts) });
    expect(await readTlsFiles({ ca: undefined })).toEqual({ material: {} });
  });

  it.each<[fault: string, () => TlsFiles, faults: readonly unknown[]]>([
    [
      'that do not exist',
      () => ({ cert: own.certFile, key: faulty.missing, crl: faulty.missing }),
      ['key does not exist', 'crl does not exist'],
    ],
    [
      'of which one is below a file',
      () => ({ cert: own.certFile, ca: `${own.certFile}/ca` }),
      ['ca cannot be read (ENOTDIR)'],
    ],
    [
      'of which one is a folder',
      () => ({ ca: faulty.folder }),
      ['ca cannot be read: one of the files is not a regular file'],
    ],
    [
      'of which one is too large',
      () => ({ proxyCa: faulty.large }),
      ['proxyCa cannot be read: one of the files is larger than 4194304 bytes'],
    ],
    [
      'with other contents',
      () => ({ cert: own.keyFile, key: own.certFile, ca: faulty.cut, crl: ca.file, proxyCa: own.keyFile }),
      [
        'cert contains no valid PEM certificate',
        'ca contains no valid PEM certificate',
        'proxyCa contains no valid PEM certificate',
        'crl contains no valid PEM certificate revocation list with a nextUpdate',
        'key is not an unencrypted PEM private key',
      ],
    ],
    [
      'with an encrypted key',
      () => ({ cert: own.certFile, key: faulty.encrypted }),
      ['key is not an unencrypted PEM private key'],
    ],
    [
      'of which the key is of another certificate',
      () => ({ cert: own.certFile, key: faulty.foreign }),
      ['key does not match the certificate'],
    ],
    [
      'with a key that is too short for TLS',
      () => ({ cert: faulty.weak, key: `${faulty.weak}.key`, ca: ca.file }),
      ['cert is not accepted for TLS (ERR_SSL_EE_KEY_TOO_SMALL)'],
    ],
    [
      'with what only looks like a revocation list',
      () => ({ cert: own.certFile, key: own.keyFile, crl: faulty.crl }),
      [expect.stringMatching(/^crl is not accepted for TLS/)],
    ],
  ])('%s are rejected with all their faults', async (_fault, files, faults) => {
    const read = await readTlsFiles(files());
    expect('faults' in read && read.faults.map(({ part, message }) => `${part} ${message}`)).toEqual(faults);
  });
});

const day = 86_400_000;

itWith('openssl')('a chain expires with its first certificate, CAs with the last one', () => {
  const folder = new Folder();
  try {
    const now = Math.floor(Date.now() / 1000) * 1000;
    const ca = new Ca(folder.path, 'ca');
    const untils = [now + day, now + 3 * day, now + 2 * day];
    const pem = untils.map((until, index) => ca.issue(`c${index}`, { until }).cert.toString()).join('');
    expect(validityOf({ cert: pem }, 'cert')?.until).toBe(now + day);
    expect(validityOf({ ca: pem }, 'ca')?.until).toBe(now + 3 * day);
    expect(validityOf({ proxyCa: pem }, 'proxyCa')?.until).toBe(now + 3 * day);
  } finally {
    folder.remove();
  }
});

it('a key, and what is no certificate, have no validity', () => {
  expect(validityOf({ key: 'x' }, 'key')).toBeUndefined();
  expect(validityOf({ proxyCa: 'x' }, 'proxyCa')).toBeUndefined();
});

const inPem = (der: Buffer): string =>
  `-----BEGIN X509 CRL-----\n${der.toString('base64')}\n-----END X509 CRL-----\n`;

/** What is read of a revocation list: its times, as UTCTime or GeneralizedTime. */
function listOf(...times: readonly string[]): string {
  const parts = times.map((time) => encodeDer(time.length === 13 ? 0x17 : 0x18, Buffer.from(time)));
  return inPem(encodeDer(0x30, encodeDer(0x30, ...parts)));
}

it('revocation lists expire with the first of them, and are valid from the last one on', () => {
  const crl = listOf('260101000000Z', '280101000000Z') + listOf('260201000000Z', '270101000000Z');
  const validity = { from: Date.UTC(2026, 1), until: Date.UTC(2027, 0) };
  expect(validityOf({ crl }, 'crl')).toEqual(validity);
  expect(untimelyParts({ crl }, validity.until)).toEqual([]);
  expect(untimelyParts({ crl }, validity.until + 1)).toEqual([
    { part: 'crl', message: 'expired on 2027-01-01: renew it' },
  ]);
  expect(untimelyParts({ crl }, validity.from)).toEqual([]);
  expect(untimelyParts({ crl }, validity.from - 1)).toEqual([
    { part: 'crl', message: 'is not valid before 2026-02-01' },
  ]);
});

it('the years of a revocation list with two digits are those from 1950 to 2049', () => {
  const yearsOf = (...times: readonly string[]): unknown => {
    const { from = 0, until = 0 } = validityOf({ crl: listOf(...times) }, 'crl') ?? {};
    return [from, until].map((time) => new Date(time).getUTCFullYear());
  };
  expect(yearsOf('500101000000Z', '491231235959Z')).toEqual([1950, 2049]);
  expect(yearsOf('20500101000000Z', '21000101000000Z')).toEqual([2050, 2100]);
});

it('a revocation list without a nextUpdate, or with a time that is none, has no validity', () => {
  for (const times of [['260101000000Z'], ['260101000000Z', '261301000000Z']])
    expect(validityOf({ crl: listOf(...times) }, 'crl')).toBeUndefined();
});

it('a revocation list that is not DER has no validity', () => {
  for (const hex of ['30', '30800000', '308400000001', '3f8101', '30040201', '30020501'])
    expect(validityOf({ crl: inPem(Buffer.from(hex, 'hex')) }, 'crl')).toBeUndefined();
});

it.each([127, 128, 255, 256, 65_536])('a revocation list may have a field of %i bytes', (length) => {
  const times = ['260101000000Z', '280101000000Z'].map((time) => encodeDer(0x17, Buffer.from(time)));
  const crl = inPem(encodeDer(0x30, encodeDer(0x30, ...times, encodeDer(4, Buffer.alloc(length)))));
  expect(validityOf({ crl }, 'crl')?.from).toBe(Date.UTC(2026, 0));
});

describe('revocation lists in place of those in use', () => {
  const message = 'has a revocation list that is older than the one in use: write the latest list of the CA';
  /** With the fields that RFC 5280 section 5.1 has before the times. */
  function listBy(issuer: string, thisUpdate: string, withVersion = true): string {
    const time = (text: string) => encodeDer(0x17, Buffer.from(text));
    const version = withVersion ? [encodeDer(0x02, Buffer.from([1]))] : [];
    const names = [encodeDer(0x30), encodeDer(0x30, encodeDer(0x0c, Buffer.from(issuer)))];
    const tbs = encodeDer(0x30, ...version, ...names, time(thisUpdate), time('300101000000Z'));
    return inPem(encodeDer(0x30, tbs));
  }
  const [old, recent] = ['260101000000Z', '260102000000Z'];

  it.each([
    ['the older one of the CA', listBy('a', recent), listBy('a', old), true],
    ['an older one without a version', listBy('a', recent), listBy('a', old, false), true],
    [
      'the older one of one CA',
      listBy('a', recent) + listBy('b', old),
      listBy('b', recent) + listBy('a', old),
      true,
    ],
    ['the older one before the same', listBy('a', recent), listBy('a', old) + listBy('a', recent), false],
    ['a newer one', listBy('a', old), listBy('a', recent), false],
    ['one of the same time', listBy('a', old), listBy('a', old, false), false],
    ['the older one of another CA', listBy('a', recent), listBy('b', old), false],
    ['the first one', '', listBy('a', old), false],
    ['none', listBy('a', recent), '', false],
  ])('%s', (_, inUse, found, isRefused) => {
    const material = (crl: string) => (crl === '' ? {} : { crl });
    expect(outdatedLists(material(inUse), material(found))).toEqual(
      isRefused ? [{ part: 'crl', message }] : [],
    );
  });
});
