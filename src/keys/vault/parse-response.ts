import type { IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';
import { kindOfStatus, VaultError, type VaultErrorKind } from './errors.ts';

/** Longest wait a `Retry-After` can impose, seconds. */
const longestRetryAfter = 600;

const errorsShape = z.object({ errors: z.array(z.string()) });
const deletedShape = z.object({ data: z.object({ metadata: z.record(z.string(), z.unknown()) }) });

/**
 * The body of a success, parsed; `undefined` where there is none (204).
 *
 * @throws VaultError for every other status, and for a success that is not JSON.
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
 * The same status can mean different things, and only one of them may make a key count as gone. So the two
 * statuses that say something for certain (404 and 400) have to look as Vault itself writes them: a load
 * balancer's 404 is not a missing secret.
 */
function kindOf(status: number, body: unknown): VaultErrorKind {
  if (status === 404) return kindOfNotFound(body);
  if (status === 400 && mentionsCheckAndSet(body)) return 'cas-mismatch';
  return kindOfStatus.get(status) ?? 'invalid-reply';
}

function kindOfNotFound(body: unknown): VaultErrorKind {
  if (deletedShape.safeParse(body).success) return 'deleted';
  const errors = errorsShape.safeParse(body).data?.errors;
  if (errors === undefined) return 'invalid-reply';
  return errors.length === 0 ? 'not-found' : 'no-route';
}

/** Vault gives a failed check-and-set no status of its own. */
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
  return Math.min(Number(value), longestRetryAfter);
}
