import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

type PairList = readonly (readonly [name: string, value: string])[];

/** A vector of test/vectors/published.json; what it does not state is absent. */
export interface PublishedVector {
  readonly id: string;
  readonly signature_method: 'HMAC-SHA1' | 'RSA-SHA1' | 'RSA-SHA256';
  readonly method?: string;
  readonly url?: string;
  readonly form_body?: string;
  readonly params?: PairList;
  readonly consumer_secret: string;
  readonly token_secret: string;
  readonly rsa_private_key_pem?: string;
  readonly expected_normalized_parameters?: string;
  readonly expected_base_string?: string;
  /** Its beginning, where not all of it is published. */
  readonly expected_base_string_prefix?: string;
  /** The parameters as a form, OAuth parameters included. */
  readonly expected_body?: string;
  readonly expected_signature?: string;
}

/** A vector of test/vectors/openssl.json. */
export interface OpensslVector {
  readonly id: string;
  readonly url: string;
  readonly form: PairList;
  readonly signature_method: 'HMAC-SHA1' | 'RSA-SHA256';
  readonly control_key?: string;
  readonly private_key_file?: string;
  readonly consumer_key: string;
  readonly nonce: string;
  readonly timestamp: number;
  readonly expected_body: string;
  readonly expected_normalized_parameters: string;
  readonly expected_base_string: string;
  readonly expected_signature: string;
}

export function publishedVectors(): readonly PublishedVector[] {
  return JSON.parse(vectorText('published.json'));
}

export function opensslVectors(): readonly OpensslVector[] {
  return JSON.parse(vectorText('openssl.json'));
}

/** A throwaway key of test/vectors/keys, such as `rsa-2048-pkcs8.pem`. */
export function privateKeyOf(file: string): KeyObject {
  return createPrivateKey(vectorText(`keys/${file}`));
}

export function publicKeyOf(file: string): KeyObject {
  return createPublicKey(vectorText(`keys/${file}`));
}

export function vectorText(name: string): string {
  return readFileSync(vectorPath(name), 'utf8');
}

/** Absolute path of a file in test/vectors. */
export function vectorPath(name: string): string {
  return fileURLToPath(new URL(`../vectors/${name}`, import.meta.url));
}
