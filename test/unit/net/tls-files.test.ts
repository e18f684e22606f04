import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { readTlsFiles, type TlsFiles, tlsFilesIn } from '../../../src/net/tls-files.ts';
import { outdatedLists, untimelyParts, validityOf } from '../../../src/net/tls-material.ts';
import { encodeDer } from '../../support/der.ts';
import { Folder } from '../../support/folder.ts';
import { describeWith } from '../../support/requires.ts';
import { Ca, type Issued } from '../../support/stub-vault/certificates.ts';

const pem = (der: Buffer): string =>
  `-----BEGIN X509 CRL-----\n${der.toString('base64')}\n-----END X509 CRL-----\n`;

/** UTCTime or GeneralizedTime. */
const time = (text: string): Buffer => encodeDer(text.length === 13 ? 0x17 : 0x18, Buffer.from(text));

/** What is read of a revocation list: its fields; texts are times. */
const listOf = (...fields: readonly (string | Buffer)[]): string =>
  pem(encodeDer(0x30, encodeDer(0x30, ...fields.map((one) => (typeof one === 'string' ? time(one) : one)))));

const day = 86_400_000;

describeWith('openssl')('PEM files of one connection', () => {
  let folder: Folder;
  let ca: Ca;
  let own: Issued;

  beforeAll(() => {
    folder = new Folder();
    ca = new Ca(folder.path, 'ca');
    own = ca.issue('own');
    const weak = ['-x509', '-newkey', 'rsa:1024', '-nodes', '-subj', '/CN=weak'];
    execFileSync('openssl', ['req', ...weak, '-keyout', folder.at('weak.key'), '-out', folder.at('weak')], {
      stdio: 'ignore',
    });
    mkdirSync(folder.at('folder'));
  });
  afterAll(() => folder.remove());

  it('are read as they are if all are valid', async () => {
    const crl = folder.file('list', ca.revocationList());
    expect(tlsFilesIn({ egressProxy: { caFile: 'p' } })).toEqual({ proxyCa: 'p' });
    const files = { cert: own.certFile, key: own.keyFile, ca: ca.file, crl, proxyCa: ca.file };
    const texts = Object.entries(files).map(([part, file]) => [part, readFileSync(file, 'utf8')]);
    expect(await readTlsFiles(files)).toEqual({ material: Object.fromEntries(texts) });
    expect(await readTlsFiles({ ca: undefined })).toEqual({ material: {} });
  });

  const cut = (): string =>
    folder.file('cut', readFileSync(own.certFile, 'utf8').replace(/[^-]{100}-----END/, '\n-----END'));
  const encrypted = (): string => {
    const encrypt = ['pkcs8', '-topk8', '-passout', 'pass:x', '-in', own.keyFile];
    return folder.file('encrypted', execFileSync('openssl', encrypt));
  };

  it.each<[fault: string, () => TlsFiles, faults: readonly unknown[]]>([
    [
      'that do not exist',
      () => ({ cert: own.certFile, key: folder.at('missing'), crl: folder.at('missing') }),
      ['key does not exist', 'crl does not exist'],
    ],
    [
      'of which one is below a file',
      () => ({ cert: own.certFile, ca: `${own.certFile}/ca` }),
      ['ca cannot be read (ENOTDIR)'],
    ],
    [
      'of which one is a folder',
      () => ({ ca: folder.at('folder') }),
      ['ca cannot be read: one of the files is not a regular file'],
    ],
    [
      'of which one is too large',
      () => ({ proxyCa: folder.file('large', 'x'.repeat(4_194_305)) }),
      ['proxyCa cannot be read: one of the files is larger than 4194304 bytes'],
    ],
    [
      'with other contents',
      () => ({ cert: own.keyFile, key: own.certFile, ca: cut(), crl: ca.file, proxyCa: own.keyFile }),
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
      () => ({ cert: own.certFile, key: encrypted() }),
      ['key is not an unencrypted PEM private key'],
    ],
    [
      'of which the key is of another certificate',
      () => ({ cert: own.certFile, key: ca.issue('foreign').keyFile }),
      ['key does not match the certificate'],
    ],
    [
      'with a key that is too short for TLS',
      () => ({ cert: folder.at('weak'), key: folder.at('weak.key'), ca: ca.file }),
      ['cert is not accepted for TLS (ERR_SSL_EE_KEY_TOO_SMALL)'],
    ],
    [
      'with what only looks like a revocation list',
      () => ({
        cert: own.certFile,
        key: own.keyFile,
        crl: folder.file('crl', listOf('260101000000Z', '360101000000Z')),
      }),
      [expect.stringMatching(/^crl is not accepted for TLS/)],
    ],
  ])('%s are rejected with all their faults', async (_fault, files, faults) => {
    const read = await readTlsFiles(files());
    expect('faults' in read && read.faults.map(({ part, message }) => `${part} ${message}`)).toEqual(faults);
  });

  it('expire with the first certificate of a chain, or the last one of CAs', () => {
    const now = Math.floor(Date.now() / 1000) * 1000;
    const untils = [now + day, now + 3 * day, now + 2 * day];
    const all = untils.map((until, index) => ca.issue(`c${index}`, { until }).cert.toString()).join('');
    const expiries = (['cert', 'ca', 'proxyCa'] as const).map(
      (part) => validityOf({ [part]: all }, part)?.until,
    );
    expect(expiries).toEqual([now + day, now + 3 * day, now + 3 * day]);
  });
});

it('a key, and what is no certificate, have no validity', () => {
  expect(validityOf({ key: 'x' }, 'key')).toBeUndefined();
  expect(validityOf({ proxyCa: 'x' }, 'proxyCa')).toBeUndefined();
});

describe('revocation lists', () => {
  it('expire with the first of them, and are valid from the last one on', () => {
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

  it.each([
    [
      ['500101000000Z', '491231235959Z'],
      [1950, 2049],
    ],
    [
      ['20500101000000Z', '21000101000000Z'],
      [2050, 2100],
    ],
  ])('have years with two digits from 1950 to 2049: %j', (times, years) => {
    const { from = 0, until = 0 } = validityOf({ crl: listOf(...times) }, 'crl') ?? {};
    expect([from, until].map((one) => new Date(one).getUTCFullYear())).toEqual(years);
  });

  it.each([
    ['without a nextUpdate', listOf('260101000000Z')],
    ['with a time that is none', listOf('260101000000Z', '261301000000Z')],
    ...['30', '30800000', '308400000001', '3f8101', '30040201'].map((hex) => [
      `that are not DER: ${hex}`,
      pem(Buffer.from(hex, 'hex')),
    ]),
  ])('%s have no validity', (_, crl) => {
    expect(validityOf({ crl }, 'crl')).toBeUndefined();
  });

  it.each([127, 128, 256])('may have a field of %i bytes', (length) => {
    const crl = listOf('260101000000Z', '280101000000Z', encodeDer(4, Buffer.alloc(length)));
    expect(validityOf({ crl }, 'crl')?.from).toBe(Date.UTC(2026, 0));
  });

  const message = 'has a revocation list that is older than the one in use: write the latest list of the CA';
  const [old, recent] = ['260101000000Z', '260102000000Z'];
  /** With the fields that RFC 5280 section 5.1 has before the times. */
  const listBy = (issuer: string, thisUpdate: string, ...version: readonly Buffer[]): string => {
    const name = encodeDer(0x30, encodeDer(0x0c, Buffer.from(issuer)));
    return listOf(...version, encodeDer(0x30), name, thisUpdate, '300101000000Z');
  };
  const ofA = listBy('a', recent, encodeDer(0x02, Buffer.from([1])));

  it.each([
    ['the older one of the CA', ofA, listBy('a', old), true],
    ['the older one of one CA', ofA + listBy('b', old), listBy('b', recent) + listBy('a', old), true],
    ['the older one before the same', ofA, listBy('a', old) + ofA, false],
    ['a newer one', listBy('a', old), ofA, false],
    ['one of the same time', ofA, listBy('a', recent), false],
    ['the older one of another CA', ofA, listBy('b', old), false],
    ['the first one', '', listBy('a', old), false],
    ['none', ofA, '', false],
  ])('are not replaced by an older one of the same CA: %s', (_, inUse, found, isRefused) => {
    const material = (crl: string) => (crl === '' ? {} : { crl });
    expect(outdatedLists(material(inUse), material(found))).toEqual(
      isRefused ? [{ part: 'crl', message }] : [],
    );
  });
});
