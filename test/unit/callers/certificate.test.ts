import { describe, expect, it } from '@jest/globals';
import { namesIn } from '../../../src/callers/certificate.ts';

// The texts are what Node's X509Certificate.subjectAltName gives; it quotes names that hold commas, quotes or
// control characters, as JSON does (CVE-2021-44532).
describe('the names of a certificate', () => {
  it('are its URIs and DNS names', () => {
    const text =
      'URI:spiffe://prod/ns/pay/sa/billing, DNS:billing.internal, IP Address:10.0.0.1, DNS:b.internal';
    expect(namesIn(text)).toEqual({
      uris: ['spiffe://prod/ns/pay/sa/billing'],
      dnsNames: ['billing.internal', 'b.internal'],
    });
  });

  it('are none without a subject alternative name', () => {
    expect(namesIn(undefined)).toEqual({ uris: [], dnsNames: [] });
    expect(namesIn('')).toEqual({ uris: [], dnsNames: [] });
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
  ])('are not what another name only pretends: %s', (_, text) => {
    const { uris, dnsNames } = namesIn(text);
    expect([...uris, ...dnsNames].filter((name) => /prod|billing/.test(name))).toEqual([]);
  });

  it('are kept when a quoted one stands between them', () => {
    expect(namesIn('DNS:a.test, URI:"x, y", DNS:b.test')).toEqual({
      uris: [],
      dnsNames: ['a.test', 'b.test'],
    });
  });
});
