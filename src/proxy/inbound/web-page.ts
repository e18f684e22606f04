import type { IncomingMessage } from 'node:http';
import type { VerifiedCredential } from '../../auth/authenticate.ts';
import { ProxyError } from '../../errors.ts';
import { isFromWebPage, isKnownHost } from '../../util/http-server.ts';

/**
 * Rejects what any web page can make a browser send: it needs no credentials to reach an anonymous caller, and the
 * browser presents client certificates for it. It does not know bearer tokens.
 *
 * @param allowedHosts for anonymous callers, as for {@link isKnownHost}: with DNS rebinding, the page has our origin
 * @throws ProxyError `web-page`, `unknown-host`
 */
export function rejectWebPage(
  { headers }: IncomingMessage,
  { kind }: VerifiedCredential,
  allowedHosts: readonly string[],
): void {
  if (kind !== 'anonymous' && kind !== 'certificate') return;
  if (isFromWebPage(headers)) {
    throw new ProxyError(
      'web-page',
      'A web page sent this (Origin or Sec-Fetch-Site header). Send it from a server, or with a bearer token.',
    );
  }
  if (kind === 'anonymous' && !isKnownHost(headers.host, allowedHosts)) {
    throw new ProxyError(
      'unknown-host',
      'Without credentials the Host has to be an IP address, localhost, or a name in proxy.allowedHosts. Use one of them, or have the name added.',
    );
  }
}
