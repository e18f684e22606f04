import { createHash, createHmac, type KeyObject, timingSafeEqual, verify } from 'node:crypto';
import type { Operation } from '../gateway/operations.ts';
import { reveal, type Secret } from '../secret.ts';
import { type Pair, percentEncode } from './form.ts';
import { VerificationError } from './rejections.ts';

/** The keys that the gateway accepts for a login. Several of a kind simulate a rotation. */
export interface GatewayKeys {
  readonly controlKeys: readonly Secret[];
  readonly publicKeys: readonly KeyObject[];
}

/** What identifies a key without showing anything of it. */
export interface KeyName {
  readonly kind: 'control_key' | 'private_key';
  /** Its place in the login's list of that kind. */
  readonly index: number;
  /** SHA-256 of the public key (SPKI, DER), in hexadecimal. A control key has none: it could be guessed from it. */
  readonly fingerprint?: string;
}

type SignatureMethod = Operation['signature'];

/**
 * docs/gateway-interface.md section 5.1 and RFC 5849 section 3.4.1: method, URL and parameters, each encoded.
 *
 * @param parameters those of the form, and the five OAuth parameters once
 */
export function baseStringOf(url: string, parameters: readonly Pair[]): string {
  const joined = parameters
    .map(([name, value]) => [percentEncode(name), percentEncode(value)] as const)
    .toSorted(([nameA, valueA], [nameB, valueB]) => compare(nameA, nameB) || compare(valueA, valueB))
    .map((pair) => pair.join('='))
    .join('&');
  return ['POST', url, joined].map(percentEncode).join('&');
}

/** RFC 5849 section 3.4.1.2: scheme and host in lowercase, no default port, no query. */
export function baseUrlOf(protocol: string, host: string, path: string): string {
  const defaultPort = protocol === 'https' ? ':443' : ':80';
  const authority = host.toLowerCase();
  const shown = authority.endsWith(defaultPort) ? authority.slice(0, -defaultPort.length) : authority;
  return `${protocol}://${shown}${path}`;
}

/**
 * The index of the login's key that made the signature.
 *
 * @throws VerificationError `key-missing`, `signature-malformed` or `signature-wrong`.
 */
export function acceptingKey(
  method: SignatureMethod,
  keys: GatewayKeys,
  baseString: string,
  signatureText: string,
): number {
  const signature = decodeBase64(signatureText);
  const matches =
    method === 'HMAC-SHA1'
      ? keys.controlKeys.map((key) => hmacMatches(key, baseString, signature))
      : keys.publicKeys.map((key) => verify('sha256', Buffer.from(baseString), key, signature));
  if (matches.length === 0) throw new VerificationError('key-missing');
  const index = matches.indexOf(true);
  if (index === -1) throw new VerificationError('signature-wrong');
  return index;
}

/** The login's keys for a signature method. */
export function keyNames(method: SignatureMethod, { controlKeys, publicKeys }: GatewayKeys): KeyName[] {
  return method !== 'RSA-SHA256'
    ? controlKeys.map((_key, index) => ({ kind: 'control_key', index }))
    : publicKeys.map((key, index) => ({ kind: 'private_key', index, fingerprint: fingerprintOf(key) }));
}

export function fingerprintOf(publicKey: KeyObject): string {
  return createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex');
}

/** RFC 5849 section 3.4.2; the token secret is empty (docs/gateway-interface.md section 5.2). */
function hmacMatches(controlKey: Secret, baseString: string, signature: Buffer): boolean {
  const key = `${percentEncode(reveal(controlKey))}&`;
  const expected = createHmac('sha1', key).update(baseString).digest();
  return expected.length === signature.length && timingSafeEqual(expected, signature);
}

/** docs/gateway-interface.md section 5.5: SHA-1 of the text and the control key. */
export function controlOf(text: string, controlKey: Secret): string {
  return createHash('sha1')
    .update(`${text}${reveal(controlKey)}`)
    .digest('hex');
}

/** RFC 4648 section 4, canonical. Hexadecimal signatures are not allowed (docs/gateway-interface.md section 5.3). */
function decodeBase64(text: string): Buffer {
  const decoded = Buffer.from(text, 'base64');
  const looksHex = /^(?:[0-9a-f]{2}){20,}$/i.test(text);
  if (decoded.length === 0 || looksHex || decoded.toString('base64') !== text) {
    throw new VerificationError('signature-malformed');
  }
  return decoded;
}

/** By their octets. */
function compare(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a, 'latin1'), Buffer.from(b, 'latin1'));
}
