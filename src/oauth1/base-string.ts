import { percentEncode } from './encode.ts';

/**
 * RFC 5849 section 3.4.1.1: upper-case method, base string URI and normalized parameters, each percent-encoded, joined
 * with `&`.
 */
export function baseString(method: string, baseUri: string, normalizedParameters: string): string {
  return [method.toUpperCase(), baseUri, normalizedParameters].map(percentEncode).join('&');
}
