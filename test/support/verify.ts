import { ok } from 'node:assert/strict';
import { type KeyObject, verify } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { RawRequest } from './faulty-gateway.ts';
import { otherBaseString, otherHmacSha1 } from './oauth-sign.ts';

/** A request as it arrived at a socket. `url` is scheme, `Host` header and request target, put together. */
export interface ReceivedRequest {
  readonly method: string;
  readonly url: string;
  readonly authorization: string | undefined;
  readonly body: Buffer | string;
}

/** A request as a gateway recorded it, over plain HTTP. */
export function receivedFrom(
  request:
    | (Pick<ReceivedRequest, 'method' | 'body'> & {
        readonly target: string;
        readonly headers: Pick<IncomingHttpHeaders, 'host' | 'authorization'>;
      })
    | undefined,
): ReceivedRequest {
  if (request === undefined) throw new Error('nothing reached the gateway');
  const { method, target, headers, body } = request;
  return { method, url: `http://${headers.host}${target}`, authorization: headers.authorization, body };
}

/** The same for a request of raw TCP. */
export function receivedFromRaw(request: RawRequest | undefined): ReceivedRequest {
  const { line = '', headers = [], body = '' } = request ?? {};
  const [method = '', target = ''] = line.split(' ');
  const byName = Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value]));
  return receivedFrom({ method, target, headers: byName, body });
}

/** The gateway's key of a login: its control key, or its public key. */
export type VerificationKey = { readonly controlKey: string } | { readonly publicKey: KeyObject };

export interface VerifiedRequest {
  /** The OAuth parameters of the header, decoded, `oauth_signature` included. */
  readonly oauth: ReadonlyMap<string, string>;
  /** The body without its OAuth parameters: what the caller sent. */
  readonly form: readonly Pair[];
}

type Pair = readonly [name: string, value: string];

const signedNames =
  'oauth_consumer_key oauth_nonce oauth_signature_method oauth_timestamp oauth_version'.split(' ');

/**
 * Verifies a received request as the gateway's interface (section 5) describes it, independently of
 * src/oauth1: own strict parsing of header and body, base string and HMAC by the package oauth-sign, RSA
 * verification by node:crypto.
 *
 * @throws AssertionError that says what is wrong.
 */
export function verifyAuthorization(request: ReceivedRequest, key: VerificationKey): VerifiedRequest {
  const oauth = parseHeader(request.authorization ?? '');
  const body = parseBody(request.body.toString('latin1'));
  demandAgreement(oauth, body);
  const baseUri = baseUriOf(request.url);
  const signature = oauth.get('oauth_signature') ?? '';
  if ('controlKey' in key) {
    ok(oauth.get('oauth_signature_method') === 'HMAC-SHA1', 'the signature method does not fit the key');
    const expected = otherHmacSha1(request.method, baseUri, body, key.controlKey, '');
    ok(signature === expected, 'the HMAC does not verify');
  } else {
    ok(oauth.get('oauth_signature_method') === 'RSA-SHA256', 'the signature method does not fit the key');
    const baseString = Buffer.from(otherBaseString(request.method, baseUri, body));
    const bytes = Buffer.from(signature, 'base64');
    ok(bytes.toString('base64') === signature, 'the signature is not canonical base64');
    ok(verify('sha256', baseString, key.publicKey, bytes), 'the RSA signature does not verify');
  }
  return { oauth, form: body.filter(([name]) => !name.startsWith('oauth_')) };
}

/** RFC 5849 section 3.5.1: each name once, each value quoted and percent-encoded. */
function parseHeader(header: string): Map<string, string> {
  const shape = /^OAuth ([a-z_]+="(?:[\w.~-]|%[0-9A-F]{2})*")(?:, ?[a-z_]+="(?:[\w.~-]|%[0-9A-F]{2})*")*$/;
  ok(shape.test(header), 'the Authorization header is missing or malformed');
  const fields = [...header.matchAll(/([a-z_]+)="([^"]*)"/g)];
  const oauth = new Map(fields.map(([, name = '', value = '']) => [name, decodeURIComponent(value)]));
  ok(oauth.size === fields.length, 'the header repeats a parameter');
  oauth.delete('realm');
  const expected = [...signedNames, 'oauth_signature'].sort().join();
  ok([...oauth.keys()].sort().join() === expected, 'the header has not exactly the OAuth parameters');
  return oauth;
}

/** Interface section 5.4: the body is percent-encoded throughout; `+` is not an encoded space there. */
function parseBody(body: string): Pair[] {
  return body.split('&').map((part) => {
    const [, name, value] = /^((?:[\w.~-]|%[0-9A-F]{2})*)=((?:[\w.~-]|%[0-9A-F]{2})*)$/.exec(part) ?? [];
    ok(name !== undefined && value !== undefined, 'the body is not percent-encoded as RFC 5849 says');
    return [decodeURIComponent(name), decodeURIComponent(value)];
  });
}

/** Interface section 4: the signed OAuth parameters are in the body too, the signature is not. */
function demandAgreement(oauth: ReadonlyMap<string, string>, body: readonly Pair[]): void {
  const inBody = body.filter(([name]) => name.startsWith('oauth_'));
  const names = inBody.map(([name]) => name).sort();
  ok(names.join() === signedNames.join(), 'the body has other OAuth parameters');
  const agrees = ([name, value]: Pair): boolean => oauth.get(name) === value;
  ok(inBody.every(agrees), 'header and body disagree');
  ok(/^[1-9]\d{0,10}$/.test(oauth.get('oauth_timestamp') ?? ''), 'the timestamp is not whole seconds');
  ok(oauth.get('oauth_nonce') !== '', 'the nonce is empty');
  ok(oauth.get('oauth_version') === '1.0', 'the version is not 1.0');
}

/** RFC 5849 section 3.4.1.2, on the text alone: the class URL, which the product uses, is left out of it. */
function baseUriOf(url: string): string {
  const [, scheme = '', authority = '', path = ''] = /^(https?):\/\/([^/?#]+)([^?#]*)/i.exec(url) ?? [];
  ok(scheme !== '', 'the URL is not an absolute http or https URL');
  const defaultPort = scheme.toLowerCase() === 'http' ? /:80$/ : /:443$/;
  const host = authority.toLowerCase().replace(defaultPort, '');
  return `${scheme.toLowerCase()}://${host}${path === '' ? '/' : path}`;
}
