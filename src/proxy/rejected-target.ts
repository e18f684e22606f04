import { ProxyError } from '../errors.ts';
import type { Destination } from '../gateway/router.ts';
import type { LoginRef } from '../keys/key-source.ts';
import type { RejectedTarget, RequestFacts } from '../request-context.ts';

export interface TargetLookup {
  readonly resolve: (target: string) => Destination;
  /** Whether a login is configured or has cached keys, so that the log may name it. */
  readonly isKnownLogin: (login: LoginRef) => boolean;
}

/**
 * Where a request with a 401 or 403 would have gone, in configured names only: never the client's path or an arbitrary
 * login. To be called after the response, so that its time does not show what exists.
 *
 * @param deniedLogin the login that the caller is not allowed to use; absent for a 401
 */
export function rejectedTarget(
  { environment, operation }: RequestFacts,
  deniedLogin: string | undefined,
  target: string,
  { resolve, isKnownLogin }: TargetLookup,
): RejectedTarget {
  if (environment === undefined || operation === undefined) return resolvedTarget(target, resolve);
  if (deniedLogin === undefined) return {};
  return { login: isKnownLogin({ environment, login: deniedLogin }) ? deniedLogin : 'unknown' };
}

function resolvedTarget(target: string, resolve: TargetLookup['resolve']): RejectedTarget {
  try {
    const { environment, operation } = resolve(target);
    return { environment, operation: operation.name };
  } catch (error) {
    if (error instanceof ProxyError) return {};
    throw error;
  }
}
