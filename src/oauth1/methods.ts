import { createHmac, type KeyObject, sign } from 'node:crypto';
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
export type MethodName = 'HMAC-SHA1' | 'RSA-SHA256';

/** A signature method: the kind of key that it needs, and how it computes `oauth_signature` from a base string. */
interface Method {
  readonly kind: KeyKind;
  /** @throws TypeError if the key is of another kind */
  sign(baseString: string, key: SigningKey, tokenSecret: string): string | Promise<string>;
}

/** Null prototype: a configured name can only match one of these methods. */
export const methods: Readonly<Record<MethodName, Method>> = Object.freeze({
  __proto__: null,
  'HMAC-SHA1': { kind: 'control_key', sign: hmacSha1 },
  'RSA-SHA256': { kind: 'private_key', sign: rsaSha256 },
} as const);

/** RFC 5849 section 3.4.2. The HMAC key is both secrets, percent-encoded and joined with `&` even if one is empty. */
function hmacSha1(text: string, key: SigningKey, tokenSecret: string): string {
  if (key.kind !== 'control_key') throw new TypeError('HMAC-SHA1 needs a control key');
  const hmacKey = `${percentEncode(reveal(key.secret))}&${percentEncode(tokenSecret)}`;
  return createHmac('sha1', hmacKey).update(text).digest('base64');
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
