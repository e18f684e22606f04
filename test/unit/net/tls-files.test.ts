import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { readTlsFiles, type TlsFiles } from '../../../src/net/tls-files.ts';
import { encodeDer } from '../../support/der.ts';
import { Folder } from '../../support/folder.ts';
import { describeWith } from '../../support/requires.ts';
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
