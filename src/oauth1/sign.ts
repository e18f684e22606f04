import { baseString } from './base-string.ts';
import { baseStringUri } from './base-uri.ts';
import { decodeForm } from './decode-form.ts';
import { percentEncode } from './encode.ts';
import { methods, type OAuthMethodName, type SigningKey } from './methods.ts';
import { encodePairs, joinPairs, normalize, type Pair } from './parameters.ts';

/** An unsigned request. Time and nonce are arguments: this module has no clock and no randomness. */
export interface Unsigned {
  readonly method: string;
  readonly url: URL;
  /** The decoded parameters of the form. Never changed. */
  readonly form: readonly Pair[];
  readonly signatureMethod: OAuthMethodName;
  readonly consumerKey: string;
  readonly nonce: string;
  /** Whole seconds since 1970 (RFC 5849 section 3.3: "MUST be a positive integer"). */
  readonly timestamp: number;
}

/** The results of docs/gateway-interface.md section 5.1. They hold the client's data: never log them. */
interface Prepared {
  /** The body to send: the client's parameters, then the OAuth parameters, percent-encoded. */
  readonly body: string;
  readonly normalizedParameters: string;
  readonly baseString: string;
  /** Encoded. */
  readonly oauth: readonly Pair[];
}

export interface Signed {
  readonly authorization: string;
  /** What to send, which is exactly what was signed: ASCII, so that each character is a byte. */
  readonly body: string;
}

/** Computes `oauth_signature` of a base string, in base64. */
export type Signer = (baseString: string) => string | Promise<string>;

/** Signs a form (docs/gateway-interface.md section 5). */
export function sign(request: Unsigned, key: SigningKey): Promise<Signed> {
  return signWith(request, (text) => methods[request.signatureMethod].sign(text, key, ''));
}

/** As {@link sign}, with a key that is elsewhere. */
export async function signWith(request: Unsigned, signer: Signer): Promise<Signed> {
  const { body, baseString, oauth } = prepare(request);
  return { authorization: authorizationHeader(oauth, await signer(baseString)), body };
}

/**
 * Everything before the signature itself. `countersign explain` shows these steps.
 *
 * @throws TypeError for a URL that is not http or https, or a timestamp that is not a positive integer
 */
export function prepare(request: Unsigned): Prepared {
  const oauth = encodePairs(oauthParameters(request));
  const encoded = [...encodePairs(request.form), ...oauth];
  const { search } = request.url;
  const query = search === '' ? [] : encodePairs(decodeForm(Buffer.from(search.slice(1))));
  const normalizedParameters = normalize([...query, ...encoded]);
  return {
    body: joinPairs(encoded),
    normalizedParameters,
    baseString: baseString(request.method, baseStringUri(request.url), normalizedParameters),
    oauth,
  };
}

/** docs/gateway-interface.md section 5.1, step 1: the five parameters in base string, body and header. */
function oauthParameters(request: Unsigned): Pair[] {
  if (!Number.isSafeInteger(request.timestamp) || request.timestamp <= 0) {
    throw new TypeError('the timestamp must be a positive integer of seconds');
  }
  return [
    ['oauth_consumer_key', request.consumerKey],
    ['oauth_nonce', request.nonce],
    ['oauth_signature_method', request.signatureMethod],
    ['oauth_timestamp', String(request.timestamp)],
    ['oauth_version', '1.0'],
  ];
}

/** RFC 5849 section 3.5.1, without `realm`. @param oauth encoded */
export function authorizationHeader(oauth: readonly Pair[], signature: string): string {
  let header = 'OAuth ';
  for (const [name, value] of oauth) header += `${name}="${value}", `;
  return `${header}oauth_signature="${percentEncode(signature)}"`;
}
