import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { parseSubjectAltName } from '../../../src/auth/client-certificate.ts';
import { Folder } from '../../support/folder.ts';
import { describeWith } from '../../support/requires.ts';

// The texts are in the form of Node's X509Certificate.subjectAltName, which quotes names with commas, quotes or
// control characters, as JSON does (CVE-2021-44532).
describe('the names of a certificate', () => {
  it.each<[string | undefined, string[], string[]]>([
    [
      'URI:spiffe://prod/ns/pay/sa/billing, DNS:billing.internal, IP Address:10.0.0.1, DNS:b.internal',
      ['spiffe://prod/ns/pay/sa/billing'],
      ['billing.internal', 'b.internal'],
    ],
    ['DNS:a.test, URI:"x, y", DNS:b.test', [], ['a.test', 'b.test']],
    ['', [], []],
    [undefined, [], []],
  ])('of %j are its URIs and DNS names', (text, uris, dnsNames) => {
    expect(parseSubjectAltName(text)).toEqual({ uris, dnsNames });
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
});

describeWith('openssl')('a name with leading or trailing space', () => {
  it.each([
    ['URI:spiffe://prod/billing , DNS:b.test', ['spiffe://prod/billing '], ['b.test']],
    ['DNS:b.test, URI:spiffe://prod/billing ', ['spiffe://prod/billing '], ['b.test']],
    ['DNS:b.test , DNS: a.test', [], ['b.test ', ' a.test']],
    ['URI: spiffe://prod/billing', [' spiffe://prod/billing'], []],
  ])('differs from the trimmed name: %j', (text, uris, dnsNames) => {
    const folder = new Folder();
    try {
      const names = text
        .split(/, (?=\w)/)
        .map((name, index) => name.replace(/^(\w+):(.*)$/, `$1.${index} = "$2"`));
      const request = ['[req]', 'distinguished_name = name', 'x509_extensions = extensions', 'prompt = no'];
      const extensions = [
        '[name]',
        'CN = test',
        '[extensions]',
        'subjectAltName = @names',
        '[names]',
        ...names,
      ];
      const config = folder.file('request.cnf', `${[...request, ...extensions].join('\n')}\n`);
      const newKey = [
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:P-256',
        '-nodes',
        '-keyout',
        '/dev/null',
      ];
      const pem = execFileSync('openssl', ['req', '-x509', ...newKey, '-config', config], { stdio: 'pipe' });
      expect(parseSubjectAltName(new X509Certificate(pem).subjectAltName)).toEqual({ uris, dnsNames });
    } finally {
      folder.remove();
    }
  });
});
