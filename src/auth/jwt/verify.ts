import { isDeepStrictEqual } from 'node:util';
import { errors, jwtVerify } from 'jose';
import type { CallerConfig, JwtIssuerConfig } from '../../config/schema.ts';
import { matchesPattern } from '../../identifiers.ts';
import type { WallClock } from '../../util/clock.ts';
import { printable } from '../../util/text.ts';
import { type AuthenticatedCaller, credentialsOf } from '../authenticate.ts';
import { JwtError, type JwtProblem } from './jwt-error.ts';
import type { KeySet } from './key-set.ts';
import { type Claims, parseToken } from './parse-token.ts';

type JwtCredential = ReturnType<typeof credentialsOf<'jwt'>>[number];

/** A configured issuer with its keys. */
export interface JwtIssuer {
  /** In the configuration. */
  readonly name: string;
  readonly config: JwtIssuerConfig;
  readonly keys: Pick<KeySet, 'find'>;
}

export type JwtResult = 'accepted' | JwtProblem;

interface JwtVerifierOptions extends WallClock {
  readonly callers: readonly CallerConfig[];
  readonly issuers: readonly JwtIssuer[];
  readonly observer: {
    /** @param issuer name in the configuration; `undefined` if the token has none of those */
    tokenVerified(issuer: string | undefined, result: JwtResult): void;
    /** A mistake in the configuration: the token matches credentials of all these callers. */
    tokenAmbiguous(issuer: string, callers: readonly string[]): void;
  };
}

/** Characters of a claim in the log. */
const maxLength = 256;

/**
 * Verifies JWTs of the configured issuers (RFC 7519, RFC 8725). Which keys count is decided by the configuration and
 * the issuer alone.
 *
 * The returned function throws JwtError.
 */
export function createJwtVerifier({ callers, issuers, observer, clock }: JwtVerifierOptions) {
  const byClaim = new Map(issuers.map((issuer) => [issuer.config.issuer, issuer]));
  const credentials = credentialsOf(callers, 'jwt');
  return async (token: string): Promise<AuthenticatedCaller> => {
    let issuer: JwtIssuer | undefined;
    try {
      const claims = parseToken(token);
      const { iss } = claims;
      issuer = typeof iss === 'string' ? byClaim.get(iss) : undefined;
      if (issuer === undefined) throw new JwtError('jwt-issuer');
      const keyId = await verifySignature(token, claims, issuer, clock());
      const checked = checkTypes(claims, issuer.config, clock());
      const caller = findCaller(credentials, issuer.name, checked, observer);
      observer.tokenVerified(issuer.name, 'accepted');
      return { caller, credential: credentialOf(issuer, checked, keyId) };
    } catch (error) {
      if (error instanceof JwtError) observer.tokenVerified(issuer?.name, error.problem);
      throw error;
    }
  };
}

/** @param now milliseconds since 1970 @returns the key ID, if there is one */
async function verifySignature(token: string, claims: Claims, { config, keys }: JwtIssuer, now: number) {
  const { issuer, audience, algorithms, leeway } = config;
  try {
    const { payload, protectedHeader } = await jwtVerify(token, (header, jws) => keys.find(header, jws), {
      algorithms,
      issuer,
      audience,
      clockTolerance: leeway / 1000,
      currentDate: new Date(now),
    });
    // What jose has checked is what it has parsed by itself, perhaps after V8 began to read names as others (strict-json.ts).
    if (!isDeepStrictEqual(payload, claims)) throw new JwtError('jwt-malformed');
    return protectedHeader.kid;
  } catch (error) {
    throw error instanceof errors.JOSEError ? new JwtError(problemOf(error)) : error;
  }
}

const problems: Readonly<Record<string, JwtProblem>> = {
  ERR_JOSE_ALG_NOT_ALLOWED: 'jwt-algorithm',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'jwt-signature',
  ERR_JWT_EXPIRED: 'jwt-expired',
};

function problemOf(error: errors.JOSEError): JwtProblem {
  if (error instanceof errors.JWTClaimValidationFailed) {
    if (error.reason !== 'check_failed') return 'jwt-claim';
    return error.claim === 'aud' ? 'jwt-audience' : 'jwt-not-yet-valid';
  }
  return problems[error.code] ?? 'jwt-malformed';
}

interface SubjectClaims extends Claims {
  readonly sub: string;
}

interface CheckedClaims extends SubjectClaims {
  readonly jti: string | undefined;
}

/** What jose does not look at. */
function checkTypes(claims: Claims, { leeway }: JwtIssuerConfig, now: number): CheckedClaims {
  const { sub, jti, exp, iat, cnf, aud } = claims;
  if (typeof sub !== 'string' || sub === '' || sub.length > maxLength) throw new JwtError('jwt-claim');
  if (jti !== undefined && typeof jti !== 'string') throw new JwtError('jwt-claim');
  if (Array.isArray(aud) && aud.some((item) => typeof item !== 'string')) throw new JwtError('jwt-claim');
  // 1e999 is infinite.
  if (!Number.isFinite(exp)) throw new JwtError('jwt-claim');
  // Bound to a key that the caller would have to prove (RFC 7800), which a bearer token does not.
  if (cnf !== undefined) throw new JwtError('jwt-claim');
  if (typeof iat === 'number' && iat * 1000 > now + leeway) throw new JwtError('jwt-not-yet-valid');
  return { ...claims, sub, jti };
}

function findCaller(
  credentials: readonly JwtCredential[],
  issuer: string,
  claims: CheckedClaims,
  observer: JwtVerifierOptions['observer'],
): CallerConfig {
  const [caller, ...others] = callersWith(credentials, issuer, claims);
  if (caller === undefined) throw new JwtError('jwt-no-caller', shortened(claims.sub));
  if (others.length === 0) return caller;
  const names = [caller, ...others].map(({ name }) => name);
  observer.tokenAmbiguous(issuer, names);
  throw new JwtError('jwt-ambiguous', shortened(claims.sub));
}

/** The callers whose credentials have the verified claims of this issuer. */
export function callersWith(
  credentials: readonly JwtCredential[],
  issuer: string,
  claims: SubjectClaims,
): Set<CallerConfig> {
  const matching = credentials.filter(({ jwt }) => jwt.issuer === issuer && matchesClaims(jwt, claims));
  return new Set(matching.map(({ caller }) => caller));
}

/** Whether verified claims are those that a credential demands. A list has a match if one of its texts is one, as in `groups`. */
function matchesClaims({ subject, claims: wanted }: JwtCredential['jwt'], claims: SubjectClaims): boolean {
  return (
    (subject === undefined || matchesPattern(subject, claims.sub)) &&
    Object.entries(wanted).every(([name, pattern]) =>
      [claims[name]].flat().some((value) => typeof value === 'string' && matchesPattern(pattern, value)),
    )
  );
}

function credentialOf({ config }: JwtIssuer, { sub, jti }: CheckedClaims, keyId: string | undefined) {
  return {
    kind: 'jwt',
    issuer: config.issuer,
    subject: shortened(sub),
    keyId: keyId && shortened(keyId),
    tokenId: jti && shortened(jti),
  } as const;
}

function shortened(text: string): string {
  return printable(text.slice(0, maxLength));
}
