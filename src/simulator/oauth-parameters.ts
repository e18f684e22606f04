import type { Pair } from './form.ts';
import { VerificationError } from './verification-error.ts';

const required = [
  'oauth_consumer_key',
  'oauth_nonce',
  'oauth_signature_method',
  'oauth_timestamp',
  'oauth_version',
];

export interface OAuthParameters {
  readonly consumerKey: string;
  readonly nonce: string;
  readonly method: string;
  readonly timestamp: string;
  readonly version: string;
  readonly signature: string;
}

/**
 * The same five parameters with the same values in header and body, the signature only in the header, and no other OAuth
 * parameter (docs/gateway-interface.md section 5.4).
 *
 * @throws VerificationError `oauth-parameter-...` or `header-body-mismatch`.
 */
export function agreedParameters(header: readonly Pair[], body: readonly Pair[]): OAuthParameters {
  const inHeader = onceEach([...required, 'oauth_signature'], header);
  const inBody = onceEach(required, body.filter(isOAuth));
  const different = required.find((name) => valueOf(inHeader, name) !== valueOf(inBody, name));
  if (different !== undefined) throw new VerificationError('header-body-mismatch', different);
  return {
    consumerKey: valueOf(inHeader, 'oauth_consumer_key'),
    nonce: valueOf(inHeader, 'oauth_nonce'),
    method: valueOf(inHeader, 'oauth_signature_method'),
    timestamp: valueOf(inHeader, 'oauth_timestamp'),
    version: valueOf(inHeader, 'oauth_version'),
    signature: valueOf(inHeader, 'oauth_signature'),
  };
}

export function isOAuth([name]: Pair): boolean {
  return name.startsWith('oauth_');
}

/** RFC 5849 section 3.1: "Each parameter MUST NOT appear more than once per request." */
function onceEach(names: readonly string[], pairs: readonly Pair[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [name, value] of pairs) {
    if (!names.includes(name)) throw new VerificationError('oauth-parameter-unexpected', name);
    if (found.has(name)) throw new VerificationError('oauth-parameter-repeated', name);
    found.set(name, value);
  }
  return found;
}

function valueOf(parameters: ReadonlyMap<string, string>, name: string): string {
  const value = parameters.get(name);
  if (value === undefined) throw new VerificationError('oauth-parameter-missing', name);
  return value;
}
