import { hash, type KeyObject, sign, timingSafeEqual } from 'node:crypto';
import { reveal, type Secret } from '../secret.ts';
import { percentEncode } from './encode.ts';

/** Shared secret of a login: the control key (docs/gateway-interface.md section 5.2). */
interface ControlKey {
  readonly kind: 'control_key';
  readonly secret: Secret;
}

/** RSA private key of a login (docs/gateway-interface.md section 5.3), parsed once. */
interface PrivateKey {
  readonly kind: 'private_key';
  readonly privateKey: KeyObject;
}

export type SigningKey = ControlKey | PrivateKey;
export type KeyKind = SigningKey['kind'];
export type MethodName = OAuthMethodName | 'SHA1-control';
export type OAuthMethodName = 'HMAC-SHA1' | 'RSA-SHA256';

/** A signature method: the kind of key that it needs, and how it computes the signature of a text. */
interface Method {
  readonly kind: KeyKind;
  /** @throws TypeError if the key is of another kind */
  sign(text: string, key: SigningKey, tokenSecret: string): string | Promise<string>;
}

/** Null prototype: a configured name can only match one of these methods. */
export const methods: Readonly<Record<MethodName, Method>> = Object.freeze({
  __proto__: null,
  'HMAC-SHA1': { kind: 'control_key', sign: hmacSha1 },
  'RSA-SHA256': { kind: 'private_key', sign: rsaSha256 },
  'SHA1-control': { kind: 'control_key', sign: sha1Control },
} as const);

/** RFC 5849 section 3.4.2. The HMAC key is both secrets, percent-encoded and joined with `&` even if one is empty. */
function hmacSha1(text: string, key: SigningKey, tokenSecret: string): string {
  if (key.kind !== 'control_key') throw new TypeError('HMAC-SHA1 needs a control key');
  return hmac(`${percentEncode(reveal(key.secret))}&${percentEncode(tokenSecret)}`, text);
}

/** Of SHA-1: the bytes of a block and of a digest. */
const [blockBytes, digestBytes] = [64, 20];
const [innerPad, outerPad] = [0x36, 0x5c];

/**
 * HMAC (RFC 2104 section 2), in base64, by two one-shot hashes. For each signature `createHmac` would make a stream around
 * an object of OpenSSL, which costs 5 % of the CPU of a request.
 */
function hmac(key: string, text: string): string {
  const secret = key.length > blockBytes ? hash('sha1', key, 'buffer') : Buffer.from(key);
  const inner = Buffer.alloc(blockBytes + Buffer.byteLength(text), innerPad);
  const outer = Buffer.alloc(blockBytes + digestBytes, outerPad);
  for (let at = 0; at < secret.length; at += 1) {
    const octet = secret[at] ?? 0;
    inner[at] = innerPad ^ octet;
    outer[at] = outerPad ^ octet;
  }
  inner.write(text, blockBytes);
  hash('sha1', inner, 'buffer').copy(outer, blockBytes);
  const digest = hash('sha1', outer, 'base64');
  for (const keyed of [secret, inner, outer]) keyed.fill(0);
  return digest;
}

/**
 * RSASSA-PKCS1-v1_5 (RFC 8017 section 8.2) with SHA-256 (docs/gateway-interface.md section 5.3); RFC 5849 section 3.4.3
 * defines SHA-1 only. Runs in libuv's thread pool, not on the event loop.
 */
function rsaSha256(text: string, key: SigningKey): Promise<string> {
  if (key.kind !== 'private_key') throw new TypeError('RSA-SHA256 needs an RSA private key');
  const { privateKey } = key;
  return new Promise((resolve, reject) => {
    sign('sha256', Buffer.from(text), privateKey, (error, signature) => {
      if (error) reject(error);
      else resolve(signature.toString('base64'));
    });
  });
}

/**
 * Not of OAuth: SHA-1, in hex, over a text and then the control key (docs/gateway-interface.md section 5.5). The gateway
 * signs its callbacks with it as well.
 */
function sha1Control(text: string, key: SigningKey): string {
  if (key.kind !== 'control_key') throw new TypeError('SHA1-control needs a control key');
  return hash('sha1', `${text}${reveal(key.secret)}`, 'hex');
}

/** Whether a control is that of the text and the key. Compares in constant time. */
export function isSha1Control(control: string, text: string, key: SigningKey): boolean {
  const [given, expected] = [Buffer.from(control.toLowerCase()), Buffer.from(sha1Control(text, key))];
  return given.length === expected.length && timingSafeEqual(given, expected);
}
