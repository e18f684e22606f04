import { createHash } from 'node:crypto';
import { z } from 'zod';
import { jwtCredential } from './jwt-issuer.ts';
import { count, text } from './values.ts';

/** Name of a caller. */
export const callerNamePattern = /^[a-z0-9][a-z0-9._-]{0,63}$/;

/** What `echo "$TOKEN" | sha256sum` and `printf %s "$TOKEN" | sha256sum` print if the variable is empty. */
const emptyDigests: ReadonlySet<string> = new Set(
  ['', '\n', '\r\n'].map((text) => createHash('sha256').update(text).digest('hex')),
);

export const tokenSha256 = z
  .string()
  .regex(
    /^[0-9a-f]{64}$/,
    'must be 64 lowercase hex digits and nothing else: printf %s "$TOKEN" | sha256sum | cut -c1-64',
  )
  .refine(
    (digest) => !emptyDigests.has(digest),
    'is the digest of an empty token: a variable was empty. Create a token with "countersign callers token"',
  );

/** One way for a caller to authenticate. */
export const credential = z.union(
  [
    z.strictObject({
      tokenSha256: tokenSha256.describe('SHA-256 of a bearer token, 64 lowercase hex digits.'),
    }),
    z.strictObject({
      certificateUri: text.describe('URI in the client certificate, such as a SPIFFE ID.'),
    }),
    z.strictObject({ certificateDns: text.describe('DNS name in the client certificate.') }),
    z.strictObject({ jwt: jwtCredential.describe('A JSON Web Token, as a bearer token.') }),
    z.strictObject({ anonymous: z.literal(true).describe('Any client, without credentials.') }),
  ],
  { error: 'must be exactly one of tokenSha256, certificateUri, certificateDns, jwt and anonymous: true' },
);

/** A fingerprint may have the form that OpenSSL prints. */
export const revokedCertificate = z.union(
  [
    z
      .string()
      .regex(
        /^(?:[0-9A-Fa-f]{64}|[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){31})$/,
        'must be a SHA-256 fingerprint of 64 hex digits: openssl x509 -in FILE -noout -fingerprint -sha256',
      ),
    z.strictObject({
      publicKeySha256: z
        .string()
        .regex(
          /^[0-9a-f]{64}$/,
          'must be 64 lowercase hex digits: openssl x509 -in FILE -noout -pubkey | openssl pkey -pubin -outform DER | sha256sum | cut -c1-64',
        )
        .refine((digest) => !emptyDigests.has(digest), 'is the digest of nothing: openssl printed no key')
        .describe(
          'SHA-256 of a public key (SubjectPublicKeyInfo), 64 lowercase hex digits: revokes every certificate with this key.',
        ),
    }),
  ],
  { error: 'must be a SHA-256 fingerprint, or publicKeySha256 with the SHA-256 of a public key' },
);

export const revokedCertificates = z
  .array(revokedCertificate)
  .default([])
  .describe(
    'Client certificates that are no longer accepted, also on open connections: the SHA-256 of a public key, or the SHA-256 fingerprint of a certificate (hex, colons allowed).',
  );

const loginPattern = z
  .string()
  .regex(/^[A-Za-z0-9._~@-]{0,128}\*?$/, 'must be a login, or a login prefix followed by *')
  .min(1);

/** Allows every combination of an environment, an operation and a login of its lists. */
const grant = z.strictObject({
  environments: z.array(text).min(1).describe('Names of environments, or "*".'),
  operations: z.array(text).min(1).describe('Names of operations, or "*".'),
  logins: z.array(loginPattern).min(1).describe('Logins, or login prefixes followed by "*".'),
});

export const caller = z.strictObject({
  name: z
    .string()
    .regex(callerNamePattern, 'must be 1 to 64 of a-z 0-9 . _ -, starting with a letter or digit')
    .describe('Name in logs and metrics.'),
  mode: z
    .enum(['enforce', 'dry-run'])
    .default('enforce')
    .describe('dry-run: log and count requests that the grants do not allow, but let them through.'),
  maxInFlight: count
    .optional()
    .describe(
      'Maximum concurrent requests of this caller, per instance, from before the form is read until the gateway has responded; excess requests get 429 `caller-limit`. Default: no limit.',
    ),
  revokedCertificates,
  credentials: z.array(credential).min(1).describe('How the caller authenticates; any one is sufficient.'),
  allow: z.array(grant).default([]).describe('Grants: what the caller may do. Everything else is denied.'),
});
