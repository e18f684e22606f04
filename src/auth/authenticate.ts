import type { IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';
import type { CallerConfig } from '../config/schema.ts';
import { ProxyError } from '../errors.ts';
import { bearerToken, shortHash, tokenDigest } from './bearer-token.ts';
import { type CertificateNames, parseSubjectAltName } from './client-certificate.ts';
import { JwtError } from './jwt/jwt-error.ts';
import { looksLikeJwt } from './jwt/parse-token.ts';

/** The credentials that a client presented. */
export interface PresentedCredentials {
  /** The `Authorization` header; only the scheme `Bearer` counts. It is never forwarded. */
  readonly authorization: string | undefined;
  /** A client certificate that TLS has verified. */
  readonly certificate: PresentedCertificate | undefined;
  /** The client presented a certificate that the revocation lists of the CAs reject, or cannot vouch for: nothing else counts. */
  readonly revoked: boolean;
}

interface PresentedCertificate extends CertificateNames {
  /** SHA-256 in the form of OpenSSL: `AB:CD:...`. */
  readonly fingerprint: string;
}

/** How a caller proved who it is. Identifies the credential and does not hold it: every field may be logged. */
export type VerifiedCredential =
  | {
      readonly kind: 'token';
      /** The first 8 hex digits of the token's SHA-256. */
      readonly tokenHash: string;
    }
  | {
      readonly kind: 'certificate';
      /** The name that matched the configuration. */
      readonly certificateName: string;
      /** SHA-256 of the certificate in the form of OpenSSL: `AB:CD:...`. */
      readonly certificateFingerprint: string;
    }
  | {
      readonly kind: 'jwt';
      /** Bounded, one line of plain ASCII each. */
      readonly issuer: string;
      readonly subject: string;
      /** `kid` of the header. */
      readonly keyId?: string | undefined;
      /** `jti` of the claims. */
      readonly tokenId?: string | undefined;
    }
  | { readonly kind: 'anonymous' };

export interface AuthenticatedCaller {
  readonly caller: CallerConfig;
  readonly credential: VerifiedCredential;
}

/** Throws ProxyError `caller-unknown`, which does not say what was wrong, and `issuer-unavailable`. */
export type Authenticate = (presented: PresentedCredentials) => Promise<AuthenticatedCaller>;

export interface AuthenticatorOptions {
  readonly callers: readonly CallerConfig[];
  /** Verifies a JWT. Absent if no issuer is configured. @throws JwtError */
  readonly verifyJwt?: ((token: string) => Promise<AuthenticatedCaller>) | undefined;
  /** For the demo: an unknown bearer token is ignored. */
  readonly acceptUnknownTokens?: boolean | undefined;
}

/** @param now milliseconds since 1970 */
export function presentedCredentials(request: IncomingMessage, now: number): PresentedCredentials {
  const { socket, headers } = request;
  const certificate =
    socket instanceof TLSSocket && socket.authorized ? socket.getPeerX509Certificate() : undefined;
  // TLS checks the certificate at the handshake only; a connection may outlive it.
  const valid = certificate !== undefined && now <= certificate.validToDate.getTime();
  return {
    authorization: headers.authorization,
    // OpenSSL's names for a certificate on a list, and for one without a valid list.
    revoked:
      certificate === undefined &&
      socket instanceof TLSSocket &&
      /^CERT_REVOKED$|CRL/.test(String(socket.authorizationError)),
    certificate: valid
      ? { ...parseSubjectAltName(certificate.subjectAltName), fingerprint: certificate.fingerprint256 }
      : undefined,
  };
}

/**
 * Finds the configured caller for credentials. An invalid bearer token is an error: there is no fallback to a
 * certificate or to `anonymous`. A token whose hash is configured is that credential, even if it has the form of a JWT. The
 * configuration allows `anonymous` only on loopback or with `allowAnonymous: true`.
 */
export function createAuthenticator(options: AuthenticatorOptions): Authenticate {
  const { callers, verifyJwt, acceptUnknownTokens } = options;
  const byDigest = new Map(credentialsOf(callers, 'tokenSha256').map((one) => [one.tokenSha256, one.caller]));
  const byName = callersByName(callers);
  const anonymous = credentialsOf(callers, 'anonymous')[0]?.caller;

  async function byToken(token: string | undefined): Promise<AuthenticatedCaller | undefined> {
    // The time of a lookup can at most disclose a digest, and no token follows from its digest.
    const digest = token === undefined ? '' : tokenDigest(token);
    const caller = byDigest.get(digest);
    if (caller !== undefined) return { caller, credential: { kind: 'token', tokenHash: shortHash(digest) } };
    if (token !== undefined && verifyJwt !== undefined && looksLikeJwt(token)) {
      return verifyJwt(token).catch((error: unknown) => {
        throw error instanceof JwtError ? rejectedJwt(error) : error;
      });
    }
    if (!acceptUnknownTokens) throw invalidCredentials();
    return undefined;
  }

  return async ({ authorization, certificate, revoked }) => {
    if (revoked) throw invalidCredentials();
    const bearer = bearerToken(authorization);
    const known = (bearer && (await byToken(bearer.token))) ?? (certificate && byName(certificate));
    if (known !== undefined) return known;
    if (anonymous === undefined) throw invalidCredentials();
    return { caller: anonymous, credential: { kind: 'anonymous' } };
  };
}

/** Finds the caller that has one of the names of a certificate. DNS names are the same in any case. */
function callersByName(callers: readonly CallerConfig[]) {
  const byUri = new Map(
    credentialsOf(callers, 'certificateUri').map((one) => [one.certificateUri, one.caller]),
  );
  const byDnsName = new Map(
    credentialsOf(callers, 'certificateDns').map((one) => [one.certificateDns.toLowerCase(), one.caller]),
  );
  return ({ uris, dnsNames, fingerprint }: PresentedCertificate): AuthenticatedCaller | undefined => {
    const matches = [
      ...uris.map((name) => ({ name, caller: byUri.get(name) })),
      ...dnsNames.map((name) => ({ name, caller: byDnsName.get(name.toLowerCase()) })),
    ];
    for (const { name, caller } of matches) {
      if (caller === undefined) continue;
      const names = { certificateName: name, certificateFingerprint: fingerprint };
      return { caller, credential: { kind: 'certificate', ...names } };
    }
    return undefined;
  };
}

type Credential = CallerConfig['credentials'][number];

/** The credentials that have this field, each with its caller. */
export function credentialsOf<Field extends string>(callers: readonly CallerConfig[], field: Field) {
  const hasField = (one: Credential): one is Extract<Credential, Record<Field, unknown>> => field in one;
  return callers.flatMap((caller) => caller.credentials.filter(hasField).map((one) => ({ ...one, caller })));
}

/** Seconds: long enough for a refresh of the keys, short enough for a caller to wait. */
const issuerRetryAfter = 5;

function rejectedJwt(cause: JwtError): ProxyError {
  if (cause.problem !== 'jwt-keys-unavailable') return invalidCredentials(cause);
  return new ProxyError(
    'issuer-unavailable',
    'The keys of the token issuer are temporarily unavailable. Retry later.',
    { cause, retryAfter: issuerRetryAfter },
  );
}

/** @param cause for the log; the response is the same for each */
function invalidCredentials(cause?: JwtError): ProxyError {
  return new ProxyError(
    'caller-unknown',
    'Unknown or invalid credentials. Send "Authorization: Bearer <token>" with the token of a configured caller, or use its client certificate.',
    { cause, headers: { 'WWW-Authenticate': 'Bearer realm="countersign"' } },
  );
}
