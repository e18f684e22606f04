import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parseSubjectAltName } from '../../../src/auth/client-certificate.ts';
import { describeWith } from '../../support/requires.ts';

// The texts are in the form of Node's X509Certificate.subjectAltName, which quotes names with commas, quotes or
// control characters, as JSON does (CVE-2021-44532).
describe('the names of a certificate', () => {
  it('are its URIs and DNS names', () => {
    const text =
      'URI:spiffe://prod/ns/pay/sa/billing, DNS:billing.internal, IP Address:10.0.0.1, DNS:b.internal';
    expect(parseSubjectAltName(text)).toEqual({
      uris: ['spiffe://prod/ns/pay/sa/billing'],
      dnsNames: ['billing.internal', 'b.internal'],
    });
  });

  it('are none without a subject alternative name', () => {
    expect(parseSubjectAltName(undefined)).toEqual({ uris: [], dnsNames: [] });
    expect(parseSubjectAltName('')).toEqual({ uris: [], dnsNames: [] });
  });

  it.each([
    ['a DNS name with a URI behind a comma', 'DNS:"evil.test, URI:spiffe://prod/ns/pay/sa/billing"'],
    ['an escaped quote before the comma', String.raw`DNS:"evil.test\", URI:spiffe://prod/ns/pay/sa/billing"`],
    ['a URI that holds a DNS name', 'URI:"http://evil.test/a, DNS:billing.internal"'],
    ['a directory name', 'DirName:"CN=x, URI:spiffe://prod, DNS:billing.internal"'],
    ['an e-mail address', 'email:"URI:spiffe://prod, DNS:a"@evil.test'],
    ['another kind that ends in DNS', 'othername:SRVName:DNS:billing.internal'],
    ['a kind in lower case', 'dns:billing.internal, uri:spiffe://prod'],
    ['a quote that is never closed', 'DNS:"evil.test, URI:spiffe://prod'],
  ])('exclude text inside another name: %s', (_, text) => {
    const { uris, dnsNames } = parseSubjectAltName(text);
    expect([...uris, ...dnsNames].filter((name) => /prod|billing/.test(name))).toEqual([]);
  });

  it('include those before and after a quoted one', () => {
    expect(parseSubjectAltName('DNS:a.test, URI:"x, y", DNS:b.test')).toEqual({
      uris: [],
      dnsNames: ['a.test', 'b.test'],
    });
  });
});

/** Node's text form for a real certificate with these names. */
function subjectAltNameOf(...names: string[]): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-san-'));
  const lines = names.map((name, index) => name.replace(/^(\w+):(.*)$/, `$1.${index} = "$2"`));
  const sections = ['[req]', 'distinguished_name = name', 'x509_extensions = extensions', 'prompt = no'];
  const extensions = ['[name]', 'CN = test', '[extensions]', 'subjectAltName = @names', '[names]', ...lines];
  try {
    writeFileSync(join(folder, 'request.cnf'), `${[...sections, ...extensions].join('\n')}\n`);
    const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', '/dev/null'];
    const pem = execFileSync('openssl', ['req', '-x509', ...newKey, '-config', join(folder, 'request.cnf')], {
      stdio: 'pipe',
    });
    return new X509Certificate(pem).subjectAltName;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describeWith('openssl')('a name with leading or trailing space', () => {
  it.each([
    [
      ['URI:spiffe://prod/billing ', 'DNS:b.test'],
      { uris: ['spiffe://prod/billing '], dnsNames: ['b.test'] },
    ],
    [
      ['DNS:b.test', 'URI:spiffe://prod/billing '],
      { uris: ['spiffe://prod/billing '], dnsNames: ['b.test'] },
    ],
    [['DNS:b.test ', 'DNS: a.test'], { uris: [], dnsNames: ['b.test ', ' a.test'] }],
    [['URI: spiffe://prod/billing'], { uris: [' spiffe://prod/billing'], dnsNames: [] }],
  ])('differs from the trimmed name: %j', (names, expected) => {
    expect(parseSubjectAltName(subjectAltNameOf(...names))).toEqual(expected);
  });
});
