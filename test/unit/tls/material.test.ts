import { expect, it } from '@jest/globals';
import { untimelyParts, validityOf } from '../../../src/tls/material.ts';
import { encodeDer } from '../../../src/util/der.ts';
import { Folder } from '../../support/folder.ts';
import { itWith } from '../../support/requires.ts';
import { Ca } from '../../support/stub-vault/certificates.ts';

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

/** What is read of a revocation list: its times, as UTCTime or GeneralizedTime. */
function listOf(...times: readonly string[]): string {
  const parts = times.map((time) => encodeDer(time.length === 13 ? 0x17 : 0x18, Buffer.from(time)));
  const base64 = encodeDer(0x30, encodeDer(0x30, ...parts)).toString('base64');
  return `-----BEGIN X509 CRL-----\n${base64}\n-----END X509 CRL-----\n`;
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
