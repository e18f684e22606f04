import { createHmac, type KeyObject, sign } from 'node:crypto';
import { reveal, type Secret } from '../secret.ts';
import { percentEncode } from './encode.ts';

/** Shared secret of a login (interface section 5.2: "the merchant control key"). */
export interface ControlKey {
  readonly kind: 'control_key';
  readonly secret: Secret;
}

/** RSA private key of a login (interface section 5.3), parsed once. */
export interface PrivateKey {
  readonly kind: 'private_key';
  readonly privateKey: KeyObject;
}

export type SigningKey = ControlKey | PrivateKey;
export type KeyKind = SigningKey['kind'];
export type MethodName = 'HMAC-SHA1' | 'RSA-SHA256';

/** A signature method: the kind of key it takes, and how it turns a base string into `oauth_signature`. */
export interface Method {
  readonly kind: KeyKind;
  /** @throws TypeError if the key is of another kind. */
  sign(baseString: string, key: SigningKey, tokenSecret: string): string | Promise<string>;
}

/** Null prototype: a name out of a configuration can only find what stands here. */
export const methods: Readonly<Record<MethodName, Method>> = Object.freeze({
  __proto__: null,
  'HMAC-SHA1': { kind: 'control_key', sign: hmacSha1 },
  'RSA-SHA256': { kind: 'private_key', sign: rsaSha256 },
} as const);

/** RFC 5849 section 3.4.2. The key is both secrets, encoded, joined by `&` even when one is empty. */
function hmacSha1(text: string, key: SigningKey, tokenSecret: string): string {
  if (key.kind !== 'control_key') throw new TypeError('HMAC-SHA1 takes a control key');
  const hmacKey = `${percentEncode(reveal(key.secret))}&${percentEncode(tokenSecret)}`;
  return createHmac('sha1', hmacKey).update(text).digest('base64');
}

/**
 * RSASSA-PKCS1-v1_5 (RFC 8017 section 8.2) with SHA-256, as interface section 5.3 defines it; RFC 5849
 * section 3.4.3 knows only SHA-1. Runs on libuv's pool, not on the event loop.
 */
function rsaSha256(text: string, key: SigningKey): Promise<string> {
  if (key.kind !== 'private_key') throw new TypeError('RSA-SHA256 takes an RSA private key');
  const { privateKey } = key;
  return new Promise((resolve, reject) => {
    sign('sha256', Buffer.from(text), privateKey, (error, signature) => {
      if (error) reject(error);
      else resolve(signature.toString('base64'));
    });
  });
}
