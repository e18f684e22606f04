import type { IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';
import { kindOfStatus, VaultError, type VaultErrorKind } from './errors.ts';

/** Seconds. A longer `Retry-After` is capped. */
const maxRetryAfter = 600;

const errorsShape = z.object({ errors: z.array(z.string()) });
const deletedShape = z.object({ data: z.object({ metadata: z.record(z.string(), z.unknown()) }) });

/**
 * Parses the body of a successful response; `undefined` for status 204.
 *
 * @throws VaultError for every other status, and for a success that is not JSON
 */
export function parseVaultResponse(status: number, headers: IncomingHttpHeaders, text: string): unknown {
  const body = parse(text);
  if (status === 204) return undefined;
  if (status === 200 && body !== undefined) return body;
  const retryAfter = retryAfterOf(headers);
  throw new VaultError(kindOf(status, body), {
    status,
    ...(retryAfter === undefined ? {} : { retryAfter }),
    metadata: deletedShape.safeParse(body).data?.data.metadata,
  });
}

/**
 * Checks that a 404 or 400 has the body that Vault itself writes: a load balancer's 404 must not make a key count
 * as deleted.
 */
function kindOf(status: number, body: unknown): VaultErrorKind {
  if (status === 404) return kindOfNotFound(body);
  if (status === 400 && mentionsCheckAndSet(body)) return 'cas-mismatch';
  return kindOfStatus.get(status) ?? 'invalid-response';
}

function kindOfNotFound(body: unknown): VaultErrorKind {
  if (deletedShape.safeParse(body).success) return 'deleted';
  const errors = errorsShape.safeParse(body).data?.errors;
  if (errors === undefined) return 'invalid-response';
  return errors.length === 0 ? 'not-found' : 'no-route';
}

/** Vault has no dedicated status for a failed check-and-set. */
function mentionsCheckAndSet(body: unknown): boolean {
  return errorsShape.safeParse(body).data?.errors.some((text) => text.includes('check-and-set')) ?? false;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Seconds. Vault sends whole seconds, never a date. */
function retryAfterOf(headers: IncomingHttpHeaders): number | undefined {
  const value = headers['retry-after'];
  if (value === undefined || !/^\d{1,9}$/.test(value)) return undefined;
  return Math.min(Number(value), maxRetryAfter);
}
