import { errors, jwtVerify } from 'jose';
import type { CallerConfig, JwtIssuerConfig } from '../../config/schema.ts';
import type { WallClock } from '../../util/clock.ts';
import { printable } from '../../util/text.ts';
import type { AuthenticatedCaller } from '../authenticate.ts';
import { matchesPattern } from '../authorize.ts';
import type { VerifiedCredential } from '../verified-credential.ts';
import { JwtError, type JwtProblem } from './jwt-error.ts';
import type { KeySet } from './key-set.ts';
import { type Claims, type ParsedToken, parseToken } from './parse-token.ts';

type JwtCredential = Extract<CallerConfig['credentials'][number], { jwt: unknown }>['jwt'];

/** A configured issuer with its keys. */
export interface JwtIssuer {
  /** In the configuration. */
  readonly name: string;
  readonly config: JwtIssuerConfig;
  readonly keys: Pick<KeySet, 'find'>;
}

export interface JwtObserver {
  /** @param issuer name in the configuration; `undefined` if the token has none of those */
  tokenVerified(issuer: string | undefined, result: JwtResult): void;
  /** A mistake in the configuration: the token matches credentials of all these callers. */
  tokenAmbiguous(issuer: string, callers: readonly string[]): void;
}

export type JwtResult = 'accepted' | JwtProblem;

interface JwtVerifierOptions extends WallClock {
  readonly callers: readonly CallerConfig[];
  readonly issuers: readonly JwtIssuer[];
  readonly observer: JwtObserver;
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
  const credentials = callers.flatMap((caller) =>
    caller.credentials.flatMap((credential) =>
      'jwt' in credential ? [{ caller, jwt: credential.jwt }] : [],
    ),
  );
  return async (token: string): Promise<AuthenticatedCaller> => {
    let issuer: JwtIssuer | undefined;
    try {
      const parsed = parseToken(token);
      const { iss } = parsed.claims;
      issuer = typeof iss === 'string' ? byClaim.get(iss) : undefined;
      if (issuer === undefined) throw new JwtError('jwt-issuer');
      await verifySignature(token, issuer, clock());
      const claims = checkTypes(parsed.claims, issuer.config, clock());
      const caller = findCaller(credentials, issuer.name, claims, observer);
      observer.tokenVerified(issuer.name, 'accepted');
      return { caller, credential: credentialOf(parsed, issuer, claims) };
    } catch (error) {
      if (error instanceof JwtError) observer.tokenVerified(issuer?.name, error.problem);
      throw error;
    }
  };
}

/** @param now milliseconds since 1970 */
async function verifySignature(token: string, { config, keys }: JwtIssuer, now: number): Promise<void> {
  const { issuer, audience, algorithms, leeway } = config;
  try {
    await jwtVerify(token, (header, jws) => keys.find(header, jws), {
      algorithms,
      issuer,
      audience,
      clockTolerance: leeway / 1000,
      currentDate: new Date(now),
    });
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

interface CheckedClaims {
  readonly all: Claims;
  readonly subject: string;
  readonly tokenId: string | undefined;
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
  return { all: claims, subject: sub, tokenId: jti };
}

function findCaller(
  credentials: readonly { readonly caller: CallerConfig; readonly jwt: JwtCredential }[],
  issuer: string,
  { all, subject }: CheckedClaims,
  observer: JwtObserver,
): CallerConfig {
  const matching = credentials.filter(({ jwt }) => jwt.issuer === issuer && matchesClaims(jwt, all));
  const [caller, ...others] = new Set(matching.map((credential) => credential.caller));
  if (caller === undefined) throw new JwtError('jwt-no-caller', shortened(subject));
  if (others.length === 0) return caller;
  observer.tokenAmbiguous(
    issuer,
    [caller, ...others].map(({ name }) => name),
  );
  throw new JwtError('jwt-ambiguous', shortened(subject));
}

function credentialOf(
  { keyId }: ParsedToken,
  { config }: JwtIssuer,
  { subject, tokenId }: CheckedClaims,
): VerifiedCredential {
  return {
    kind: 'jwt',
    issuer: config.issuer,
    subject: shortened(subject),
    keyId: keyId && shortened(keyId),
    tokenId: tokenId && shortened(tokenId),
  };
}

function shortened(text: string): string {
  return printable(text.slice(0, maxLength));
}

/** Whether verified claims are those that a credential demands. */
function matchesClaims({ subject, claims: wanted }: JwtCredential, claims: Claims): boolean {
  return (
    (subject === undefined || matches(subject, claims['sub'])) &&
    Object.entries(wanted).every(([name, pattern]) => hasMatch(pattern, claims[name]))
  );
}

/** A list matches if one of its texts does, as in `groups`. */
function hasMatch(pattern: string, value: unknown): boolean {
  return Array.isArray(value) ? value.some((item) => matches(pattern, item)) : matches(pattern, value);
}

function matches(pattern: string, value: unknown): boolean {
  return typeof value === 'string' && matchesPattern(pattern, value);
}
