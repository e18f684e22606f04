import { z } from 'zod';
import { httpUrl, isPlaintextRemote } from '../url.ts';
import { egressProxy, isFitForTunnel } from './egress-proxy.ts';
import { dictionary, duration, environmentName, filePath, minVersion, text } from './values.ts';

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

/** As that of an environment. */
export const issuerName = environmentName;

const secureUrl = httpUrl.refine(
  (value) => !isPlaintextRemote(value),
  'must use https unless the host is loopback',
);

const jwksSource = z.union(
  [
    z.strictObject({ url: secureUrl.describe('URL of the key set; there is no discovery then.') }),
    z.strictObject({
      file: filePath.describe('JSON file of the key set, read again once per minute.'),
    }),
  ],
  { error: 'must be exactly one of url and file; remove jwks for discovery' },
);

/** Who signs JWTs, and where its keys come from. */
export const jwtIssuer = z
  .strictObject({
    issuer: text
      .max(255)
      .describe('The `iss` claim of its tokens, compared exactly. For discovery: its URL.'),
    audience: text.max(255).describe('What the `aud` claim of a token must be or contain.'),
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
      .describe('Signature algorithms that are accepted.'),
    leeway: duration('30s')
      .refine((value) => value <= maxLeeway, 'must be at most 5m')
      .describe('Tolerated difference of the clocks; at most 5m.'),
    maxStale: duration('24h').describe(
      'How long the last fetched keys are used while they cannot be fetched. Tokens then get 503 `issuer-unavailable`.',
    ),
    caFile: filePath.optional().describe('PEM file of the CA of the server that has the keys.'),
    tokenFile: filePath
      .optional()
      .describe('File with a bearer token for that server, as the Kubernetes API requires it.'),
    minVersion,
    egressProxy,
  })
  .refine(({ jwks, issuer }) => jwks !== undefined || secureUrl.safeParse(issuer).success, {
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
export const jwtCredential = z
  .strictObject({
    issuer: issuerName.describe('Name of an entry in jwtIssuers.'),
    subject: claimPattern
      .optional()
      .describe('The `sub` claim, or a prefix of it followed by "*". Case-sensitive.'),
    claims: dictionary(text, claimPattern)
      .prefault({})
      .describe(
        'Further top-level claims, each with a value or a prefix followed by "*". A list matches if one of its texts does.',
      ),
  })
  .refine(
    ({ subject, claims }) => subject !== undefined || Object.keys(claims).length > 0,
    'must have a subject or claims: every token of the issuer would be this caller',
  );
