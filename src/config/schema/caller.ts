import { createHash } from 'node:crypto';
import { z } from 'zod';
import { text } from './values.ts';

const tokenOfNothing = createHash('sha256').digest('hex');

/** One way to prove who calls. */
export const credential = z.union(
  [
    z.strictObject({
      tokenSha256: z
        .string()
        .regex(/^[0-9a-f]{64}$/, 'must be 64 lower-case hex digits: printf %s "$TOKEN" | sha256sum')
        .refine((digest) => digest !== tokenOfNothing, 'is the digest of an empty token: make a new one')
        .describe('SHA-256 of a bearer token, 64 lower-case hex digits.'),
    }),
    z.strictObject({
      certificateUri: text.describe('URI in the client certificate, such as a SPIFFE id.'),
    }),
    z.strictObject({ certificateDns: text.describe('DNS name in the client certificate.') }),
    z.strictObject({ anonymous: z.literal(true).describe('Whoever can connect.') }),
  ],
  { error: 'must be exactly one of tokenSha256, certificateUri, certificateDns and anonymous: true' },
);

const loginPattern = z
  .string()
  .regex(/^[A-Za-z0-9._~@-]{0,128}\*?$/, 'must be a login, or the beginning of one and "*"')
  .min(1);

/** Every combination of an environment, an operation and a login of its lists. */
const grant = z.strictObject({
  environments: z.array(text).min(1).describe('Names of environments, or "*".'),
  operations: z.array(text).min(1).describe('Names of operations, or "*".'),
  logins: z.array(loginPattern).min(1).describe('Logins, or beginnings of logins that end in "*".'),
});

export const caller = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, 'must be 1 to 64 of a-z 0-9 . _ -, starting with a letter or digit')
    .describe('Name in logs and metrics.'),
  mode: z
    .enum(['enforce', 'dry-run'])
    .default('enforce')
    .describe('report: lets through what the grants do not allow, but logs and counts it.'),
  credentials: z.array(credential).min(1).describe('How the caller proves who it is; any one is enough.'),
  allow: z.array(grant).default([]).describe('What the caller may do; nothing else.'),
});
