import { timingSafeEqual } from 'node:crypto';
import type { CallerConfig } from '../config/schema.ts';
import { ProxyError } from '../errors.ts';
import { bearerToken, tokenDigest } from './bearer-token.ts';

/** The credentials that a client presented. */
export interface PresentedCredentials {
  /** The `Authorization` header; only the scheme `Bearer` counts. It is never forwarded. */
  readonly authorization: string | undefined;
  /** Names in a client certificate that TLS has verified. */
  readonly certificate:
    | { readonly uris: readonly string[]; readonly dnsNames: readonly string[] }
    | undefined;
}

/** One method of authentication. `undefined`: no such credentials were presented. May be asynchronous, as with JWKS. */
type Authenticator = (
  presented: PresentedCredentials,
) => CallerConfig | undefined | Promise<CallerConfig | undefined>;

/**
 * Finds the configured caller for credentials. An invalid bearer token is an error: there is no fallback to a
 * certificate or to `anonymous`.
 *
 * @param acceptUnknownTokens for the demo: an unknown bearer token is ignored
 *
 * The returned function throws ProxyError `caller-unknown`, which does not say what was wrong.
 */
export function createAuthenticator(
  callers: readonly CallerConfig[],
  acceptUnknownTokens = false,
): (presented: PresentedCredentials) => Promise<CallerConfig> {
  const authenticators = [
    byToken(callers, acceptUnknownTokens),
    byCertificate(callers),
    byAnonymous(callers),
  ];
  return async (presented) => {
    for (const authenticator of authenticators) {
      const caller = await authenticator(presented);
      if (caller !== undefined) return caller;
    }
    throw invalidCredentials();
  };
}

function byToken(callers: readonly CallerConfig[], acceptUnknown: boolean): Authenticator {
  const known = callers.flatMap((caller) =>
    caller.credentials.flatMap((credential) =>
      'tokenSha256' in credential ? [{ caller, digest: Buffer.from(credential.tokenSha256, 'hex') }] : [],
    ),
  );
  return ({ authorization }) => {
    const bearer = bearerToken(authorization);
    if (bearer === undefined || (acceptUnknown && bearer.token === undefined)) return undefined;
    if (bearer.token === undefined) throw invalidCredentials();
    const digest = tokenDigest(bearer.token);
    // Every digest is compared, so that the time does not depend on which one matches.
    const [match] = known.filter((entry) => timingSafeEqual(entry.digest, digest));
    if (match === undefined && !acceptUnknown) throw invalidCredentials();
    return match?.caller;
  };
}

function byCertificate(callers: readonly CallerConfig[]): Authenticator {
  const byName = new Map<string, CallerConfig>();
  for (const caller of callers) {
    for (const credential of caller.credentials) {
      if ('certificateUri' in credential) byName.set(`uri ${credential.certificateUri}`, caller);
      if ('certificateDns' in credential)
        byName.set(`dns ${credential.certificateDns.toLowerCase()}`, caller);
    }
  }
  return ({ certificate }) => {
    const names = [
      ...(certificate?.uris ?? []).map((uri) => `uri ${uri}`),
      ...(certificate?.dnsNames ?? []).map((name) => `dns ${name.toLowerCase()}`),
    ];
    return names.map((name) => byName.get(name)).find((caller) => caller !== undefined);
  };
}

/** The configuration allows `anonymous` only on loopback or with `allowAnonymous: true`. */
function byAnonymous(callers: readonly CallerConfig[]): Authenticator {
  const anonymous = callers.find((caller) =>
    caller.credentials.some((credential) => 'anonymous' in credential),
  );
  return () => anonymous;
}

function invalidCredentials(): ProxyError {
  return new ProxyError(
    'caller-unknown',
    'Unknown or invalid credentials. Send "Authorization: Bearer <token>" with the token of a configured caller, or use its client certificate.',
    { headers: { 'WWW-Authenticate': 'Bearer realm="countersign"' } },
  );
}
