import { z } from 'zod';
import { hostOf, isLoopback } from '../url.ts';
import { duration, flag, minVersion, optionalFile, text, timeout } from './values.ts';

/** `redis://host[:port][/number]`; credentials have their own fields. */
const storeUrl = /^rediss?:\/\/[A-Za-z0-9._~:[\]-]+(?:\/\d{1,3})?$/;

const store = z
  .string()
  .refine(
    (value) => value === 'memory' || (storeUrl.test(value) && URL.canParse(value)),
    'must be memory or a URL such as rediss://redis.example:6379, without credentials',
  )
  .describe(
    'URL of the Redis or Valkey that all instances share (`rediss:` for TLS), or `memory` for a single instance, until it ends.',
  );

/** Milliseconds. */
const hour = 3_600_000;

/** The fields that a store in memory has not. */
const ofServer = ['keyFile', 'username', 'passwordFile', 'caFile'] as const;

const once = z
  .strictObject({
    store,
    ttl: duration('24h')
      .refine((value) => value >= hour, 'must be at least 1h')
      .describe('How long an order ID stays claimed.'),
    timeout: timeout('1s')
      .refine((value) => value <= 10_000, 'must be at most 10s')
      .describe('Time for the store; then payments get 503 `claims-unavailable`.'),
    keyFile: optionalFile.describe(
      'Key of the stored digests, at least 32 bytes, the same for all instances.',
    ),
    username: text.optional().describe('User of the store (ACL).'),
    passwordFile: optionalFile.describe('Read for each connection.'),
    caFile: optionalFile.describe('CA of the store. Read for each connection.'),
    minVersion,
    allowPlaintext: flag.describe('Allow a `redis:` URL beyond loopback.'),
  })
  .refine(({ store: where, keyFile }) => isMemory(where) || keyFile !== undefined, {
    path: ['keyFile'],
    message: 'is required, because the store is not in memory',
  })
  .refine((fields) => !isMemory(fields.store) || ofServer.every((name) => fields[name] === undefined), {
    path: ['store'],
    message: `must be a URL, because one of ${ofServer.join(', ')} is set`,
  })
  .refine(({ username, passwordFile }) => username === undefined || passwordFile !== undefined, {
    path: ['username'],
    message: 'requires passwordFile',
  })
  .refine(({ store: where, caFile }) => caFile === undefined || !where.startsWith('redis:'), {
    path: ['caFile'],
    message: 'requires a rediss: URL',
  })
  .refine(({ store: where, allowPlaintext }) => allowPlaintext || !isPlaintextRemote(where), {
    path: ['store'],
    message: 'must use rediss: unless the host is loopback: set allowPlaintext where a mesh encrypts',
  });

function isMemory(where: string): boolean {
  return where === 'memory';
}

function isPlaintextRemote(where: string): boolean {
  if (!where.startsWith('redis:') || !URL.canParse(where)) return false;
  return !isLoopback(hostOf(new URL(where)));
}

/** Operations that are not read-only. */
export const payments = z.strictObject({
  once: once
    .optional()
    .describe(
      'Send each payment once: a post with the order ID of one that may have been sent gets 409 `duplicate-payment`. Absent: two posts are two payments.',
    ),
});
