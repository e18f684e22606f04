import type { X509Certificate } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';
import type { VerifiedCredential } from '../../auth/authenticate.ts';
import { bearerToken, shortHash, tokenDigest } from '../../auth/bearer-token.ts';
import { parseSubjectAltName } from '../../auth/client-certificate.ts';
import { JwtError } from '../../auth/jwt/jwt-error.ts';
import { looksLikeJwt } from '../../auth/jwt/parse-token.ts';
import { ProxyError, type Reason } from '../../errors.ts';
import type { Destination, RouteClient } from '../../gateway/router.ts';
import type { LoginRef } from '../../keys/login-ref.ts';
import { clientAddress } from '../../net/http.ts';
import type { ClientDetails, RejectedTarget, RequestRecord } from '../../request-context.ts';
import { printable } from '../../util/text.ts';

export interface TargetLookup {
  readonly resolve: (target: string, client?: RouteClient) => Destination;
  /** Whether a login is configured or has cached keys, so that the log may name it. */
  readonly isKnownLogin: (login: LoginRef) => boolean;
}

/** Errors whose log line says which client it was. */
const reasons: ReadonlySet<Reason> = new Set([
  'caller-unknown',
  'issuer-unavailable',
  'not-allowed',
  'web-page',
  'unknown-host',
]);

/** Characters of a certificate's name in the log. A client can make a certificate with a name of any length. */
const maxNameLength = 200;

/**
 * Who sent a rejected request, where the log says so. Holds no credential, only what identifies one. To be read before
 * the response ends.
 *
 * @param credential how the caller proved who it is, if it did
 */
export function clientDetails(
  request: IncomingMessage,
  now: number,
  { reason, cause }: ProxyError,
  credential: VerifiedCredential | undefined,
): ClientDetails | undefined {
  if (!reasons.has(reason)) return undefined;
  const { socket, method, headers } = request;
  const certificate = certificateDetails(request, now);
  const bearer = bearerToken(headers.authorization);
  return {
    peer: clientAddress(socket),
    method,
    credential: credentialKind(headers.authorization, bearer, certificate !== undefined),
    tokenHash: bearer?.token && shortHash(tokenDigest(bearer.token)),
    ...(cause instanceof JwtError ? { jwtProblem: cause.problem, jwtSubject: cause.subject } : {}),
    ...(credential?.kind === 'jwt' ? { jwtSubject: credential.subject } : {}),
    ...certificate,
  };
}

function credentialKind(
  authorization: string | undefined,
  bearer: ReturnType<typeof bearerToken>,
  hasCertificate: boolean,
): ClientDetails['credential'] {
  if (bearer !== undefined) {
    if (bearer.token === undefined) return 'malformed-token';
    return looksLikeJwt(bearer.token) ? 'jwt' : 'token';
  }
  if (hasCertificate) return 'certificate';
  return authorization === undefined ? 'none' : 'other-scheme';
}

function certificateDetails(
  { socket }: IncomingMessage,
  now: number,
): Pick<ClientDetails, 'certificateSubject' | 'certificateIssuer' | 'certificateProblem'> | undefined {
  const certificate = socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined;
  if (certificate === undefined || !(socket instanceof TLSSocket)) return undefined;
  const expired = now > certificate.validToDate.getTime() ? 'CERT_HAS_EXPIRED' : undefined;
  return {
    certificateSubject: oneLine(certificate.subject),
    certificateIssuer: oneLine(certificate.issuer),
    certificateProblem: socket.authorized
      ? (expired ?? namelessness(certificate))
      : String(socket.authorizationError),
  };
}

/** A subject, such as a common name, identifies no caller (RFC 9525 section 2). */
function namelessness({ subjectAltName }: X509Certificate): string | undefined {
  const { uris, dnsNames } = parseSubjectAltName(subjectAltName);
  return uris.length + dnsNames.length === 0 ? 'NO_URI_OR_DNS_NAME' : undefined;
}

/** Node gives the parts of a name line by line, or `undefined` for an empty name. */
function oneLine(name = ''): string {
  return printable(name.slice(0, maxNameLength).replaceAll('\n', ', '));
}

/**
 * Where a rejected request would have gone, in configured names only: never the client's path or an arbitrary
 * login. To be called after the response, so that its time does not show what exists.
 *
 * @param deniedLogin the login that the caller is not allowed to use
 */
export function rejectedTarget(
  { environment, operation }: Pick<RequestRecord, 'environment' | 'operation'>,
  deniedLogin: string | undefined,
  target: string,
  { resolve, isKnownLogin }: TargetLookup,
): RejectedTarget {
  if (environment !== undefined && operation !== undefined) {
    if (deniedLogin === undefined) return {};
    return { login: isKnownLogin({ environment, login: deniedLogin }) ? deniedLogin : 'unknown' };
  }
  try {
    const destination = resolve(target);
    return { environment: destination.environment, operation: destination.operation.name };
  } catch (error) {
    if (error instanceof ProxyError) return {};
    throw error;
  }
}
