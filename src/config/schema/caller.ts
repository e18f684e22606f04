import { createHash } from 'node:crypto';
import { z } from 'zod';
import {
  dictionary,
  duration,
  egressProxy,
  environmentName,
  filePath,
  isFitForTunnel,
  matching,
  minVersion,
  optionalCount,
  optionalFile,
  secureUrlSuchAs,
  text,
} from './values.ts';

/** Asymmetric ones only: with an HMAC, the key that verifies a token also makes one. */
const algorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
] as const;

const maxLeeway = 300_000;
/** Milliseconds. Keys are fetched twice in this time, or more often. */
const minMaxStale = 60_000;

/** As that of an environment. */
export const issuerName = environmentName;

const keyUrl = secureUrlSuchAs('https://idp.example/keys');

export const jwksSource = z.union(
  [
    z.strictObject({ url: keyUrl.describe('URL of the key set. Without `jwks`: discovery.') }),
    z.strictObject({
      file: filePath.describe('File of the key set, read once a minute.'),
    }),
  ],
  { error: 'must be exactly one of url and file; remove jwks for discovery' },
);

/** Who signs JWTs, and where its keys come from. */
export const jwtIssuer = z
  .strictObject({
    issuer: text.max(255).describe('The `iss` claim, compared exactly. For discovery: its URL.'),
    audience: text.max(255).describe('What the `aud` claim is or contains.'),
    jwks: jwksSource
      .optional()
      .describe(
        'Where the keys come from. Default: discovery, `/.well-known/openid-configuration` of the issuer.',
      ),
    algorithms: z
      .array(
        z.enum(algorithms, {
          error: `must be one of ${algorithms.join(', ')}; a token without signature or with HMAC is never accepted`,
        }),
      )
      .min(1)
      .default(['RS256', 'ES256'])
      .describe('Accepted signatures.'),
    leeway: duration('30s')
      .refine((value) => value <= maxLeeway, 'must be at most 5m')
      .describe('Tolerated difference of clocks, at most 5m.'),
    maxStale: duration('24h')
      .refine((value) => value >= minMaxStale, 'must be at least 1m')
      .describe(
        'How long fetched keys are used while fetching fails, at least 1m. Then tokens get 503 `issuer-unavailable`.',
      ),
    caFile: optionalFile.describe('CA of the server of the keys.'),
    tokenFile: optionalFile.describe('Bearer token for it, as the Kubernetes API requires.'),
    minVersion,
    egressProxy,
  })
  .refine(({ jwks, issuer }) => jwks !== undefined || keyUrl.safeParse(issuer).success, {
    path: ['issuer'],
    message: 'must be an https URL without query for discovery; for any other issuer set jwks',
  })
  .refine(
    ({ jwks = {}, caFile, tokenFile, egressProxy }) =>
      !('file' in jwks) || (caFile ?? tokenFile ?? egressProxy) === undefined,
    'must not have caFile, tokenFile or egressProxy together with jwks.file, which is not fetched from a server',
  )
  .refine(({ jwks, issuer, egressProxy }) => isFitForTunnel(keyServerOf(jwks, issuer), egressProxy), {
    path: ['egressProxy'],
    message: 'must not be set for a server without https',
  });

function keyServerOf(jwks: z.output<typeof jwksSource> | undefined, issuer: string): string {
  return jwks !== undefined && 'url' in jwks ? jwks.url : issuer;
}

/** The empty prefix would accept everything the issuer signs, which may be the world. */
const claimPattern = z
  .string()
  .max(256)
  .regex(/^[^*]+\*?$/, 'must be a value, or a prefix of at least one character followed by *');

/** What the configuration demands of a caller's JWT, besides a valid signature of the issuer. */
const jwtCredential = z
  .strictObject({
    issuer: issuerName.describe('Name in `jwtIssuers`.'),
    subject: claimPattern.optional().describe('The `sub` claim, or a prefix and "*".'),
    claims: dictionary(text, claimPattern)
      .prefault({})
      .describe('Further claims, each a value or a prefix and "*".'),
  })
  .refine(
    ({ subject, claims }) => subject !== undefined || Object.keys(claims).length > 0,
    'must have a subject or claims: every token of the issuer would be this caller',
  );

/** What `echo "$TOKEN" | sha256sum` and `printf %s "$TOKEN" | sha256sum` print if the variable is empty. */
const emptyDigests: ReadonlySet<string> = new Set(
  ['', '\n', '\r\n'].map((text) => createHash('sha256').update(text).digest('hex')),
);

export const tokenSha256 = matching(
  /^[0-9a-f]{64}$/,
  'must be 64 lowercase hex digits and nothing else: printf %s "$TOKEN" | sha256sum | cut -c1-64',
).refine(
  (digest) => !emptyDigests.has(digest),
  'is the digest of an empty token: a variable was empty. Create a token with "countersign callers token"',
);

/**
 * A URI (RFC 3986 section 3), but no host with a port. A name with a comma or an apostrophe could never match: Node
 * quotes it, and quoted names are ignored.
 */
const certificateUri = matching(
  /^(?![Uu][Rr][Ii]:)(?:[A-Za-z][A-Za-z0-9+-]*:(?!\d+$)|[A-Za-z][A-Za-z0-9+.-]*:\/\/)(?:[\w.~:/?#[\]@!$&()*+;=-]|%[\dA-Fa-f]{2})+$/,
  'must be a URI with its scheme, such as spiffe://cluster.example/billing, as it is in the certificate, without "URI:" before it, without comma, apostrophe and blank',
);

const certificateDns = matching(
  /^[\w.*-]+$/,
  'must be a DNS name such as billing.example, as it is in the certificate, without scheme, port and "DNS:" before it',
);

/** One way for a caller to authenticate. */
export const credential = z.union(
  [
    z.strictObject({
      tokenSha256: tokenSha256.describe('SHA-256 of a bearer token.'),
    }),
    z.strictObject({
      certificateUri: certificateUri.describe('URI in the certificate, such as a SPIFFE ID.'),
    }),
    z.strictObject({ certificateDns: certificateDns.describe('DNS name in the certificate.') }),
    z.strictObject({ jwt: jwtCredential.describe('A JSON Web Token, as a bearer token.') }),
    z.strictObject({ anonymous: z.literal(true).describe('Any client, without credentials.') }),
  ],
  { error: 'must be exactly one of tokenSha256, certificateUri, certificateDns, jwt and anonymous: true' },
);

const loginPattern = matching(
  /^[A-Za-z0-9._~@-]{0,128}\*?$/,
  'must be a login, or a login prefix followed by *',
).min(1);

/** Allows every combination of an environment, an operation and a login of its lists. */
const grant = z.strictObject({
  environments: z.array(text).min(1).describe('Names of environments, or "*".'),
  operations: z.array(text).min(1).describe('Names of operations, or "*".'),
  logins: z.array(loginPattern).min(1).describe('Logins, or prefixes and "*".'),
});

export const caller = z.strictObject({
  name: matching(
    /^[a-z0-9][a-z0-9._-]{0,63}$/,
    'must be 1 to 64 of a-z 0-9 . _ -, starting with a letter or digit',
  ).describe('Name in logs and metrics.'),
  mode: z
    .enum(['enforce', 'dry-run'])
    .default('enforce')
    .describe('dry-run lets through what no grant allows, with a log line.'),
  maxInFlight: optionalCount.describe(
    'Requests at once, for each instance; excess ones get 429 `caller-limit`.',
  ),
  credentials: z.array(credential).min(1).describe('Any one is sufficient.'),
  allow: z.array(grant).default([]).describe('Grants. Everything else is denied.'),
});
