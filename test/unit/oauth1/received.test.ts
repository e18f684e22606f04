import { describe, expect, it } from '@jest/globals';
import { opensslVectors, publicKeyOf } from '../../support/vectors.ts';
import { type ReceivedRequest, verifyAuthorization } from '../../support/verify.ts';

const [balance, , status] = opensslVectors();
if (balance === undefined || status === undefined) throw new Error('openssl.json lacks a vector');
const controlKey = { controlKey: balance.control_key ?? '' };
const publicKey = { publicKey: publicKeyOf('rsa-2048-public.pem') };

const received = (vector: typeof balance): ReceivedRequest => ({
  method: 'POST',
  url: vector.url,
  body: vector.expected_body,
  authorization:
    `OAuth oauth_consumer_key="acme", oauth_nonce="${vector.nonce}", ` +
    `oauth_signature_method="${vector.signature_method}", oauth_timestamp="${vector.timestamp}",` +
    `oauth_version="1.0",oauth_signature="${encodeURIComponent(vector.expected_signature)}"`,
});
const good = received(balance);
const changed = (from: string | RegExp, to: string): Partial<ReceivedRequest> => ({
  authorization: good.authorization?.replace(from, to),
});

/** The integration tests rely on this verifier, so it must be able to reject. */
describe('the verifier of received requests', () => {
  it('accepts requests that openssl signed', () => {
    expect(verifyAuthorization(good, controlKey).form).toEqual([['balance-name', 'EUR main']]);
    expect(verifyAuthorization(received(status), publicKey).oauth.get('oauth_nonce')).toBe(status.nonce);
  });

  it('accepts host and default port in another spelling, and a realm', () => {
    const url = good.url.replace('sandbox.gateway.example', 'SANDBOX.gateway.example:443');
    const authorization = good.authorization?.replace('OAuth ', 'OAuth realm="gw", ');

    expect(() => verifyAuthorization({ ...good, url, authorization }, controlKey)).not.toThrow();
  });

  it.each<[name: string, change: Partial<ReceivedRequest>, problem: RegExp]>([
    ['no header', { authorization: undefined }, /missing or malformed/],
    ['an unquoted value', changed('"acme"', 'acme'), /missing or malformed/],
    ['two headers in one', { authorization: `${good.authorization}, ${good.authorization}` }, /malformed/],
    ['a repeated parameter', changed('OAuth ', 'OAuth oauth_version="1.0", '), /repeats/],
    ['a further parameter', changed('OAuth ', 'OAuth oauth_token="", '), /not exactly/],
    ['no signature', changed(/,oauth_signature="[^"]*"/, ''), /not exactly/],
    ['another nonce in the header', changed(/oauth_nonce="../, 'oauth_nonce="zz'), /disagree/],
    ['another signature', changed('oauth_signature="v', 'oauth_signature="w'), /HMAC/],
    ['another value', { body: balance.expected_body.replace('EUR', 'USD') }, /HMAC/],
    ['a further parameter in the body', { body: `a=b&${balance.expected_body}` }, /HMAC/],
    ['a plus for a space', { body: balance.expected_body.replace('%20', '+') }, /percent-encoded/],
    ['lower-case escapes', { body: `a=%c3%a9&${balance.expected_body}` }, /percent-encoded/],
    ['the signature in the body', { body: `${balance.expected_body}&oauth_signature=x` }, /other OAuth/],
    ['no OAuth parameters in the body', { body: 'balance-name=EUR%20main' }, /other OAuth/],
    ['another path', { url: `${good.url}2` }, /HMAC/],
    ['another scheme', { url: good.url.replace('https', 'http') }, /HMAC/],
    ['another port', { url: good.url.replace('.example', '.example:8443') }, /HMAC/],
    ['another method', { method: 'PUT' }, /HMAC/],
  ])('rejects %s', (_name, change, problem) => {
    expect(() => verifyAuthorization({ ...good, ...change }, controlKey)).toThrow(problem);
  });

  it('rejects another key, and a key of the other kind', () => {
    const other = { publicKey: publicKeyOf('rsa-4096-public.pem') };

    expect(() => verifyAuthorization(good, { controlKey: 'another' })).toThrow(/HMAC/);
    expect(() => verifyAuthorization(good, publicKey)).toThrow(/does not fit/);
    expect(() => verifyAuthorization(received(status), controlKey)).toThrow(/does not fit/);
    expect(() => verifyAuthorization(received(status), other)).toThrow(/RSA/);
  });

  it('rejects another value with an RSA signature', () => {
    const body = status.expected_body.replace('902B4FF5', '902B4FF6');

    expect(() => verifyAuthorization({ ...received(status), body }, publicKey)).toThrow(/RSA/);
  });
});
