import { expect, it } from '@jest/globals';
import { validityOf } from '../../../src/tls/material.ts';
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
