import type { CallerConfig } from '../config/schema.ts';

/** What a caller wants to do. */
export interface AccessRequest {
  readonly environment: string;
  readonly operation: string;
  readonly login: string;
}

/** Whether one of the caller's grants covers the wish; without a grant nothing is allowed. */
export function isAllowed(caller: CallerConfig, wish: AccessRequest): boolean {
  return caller.allow.some(
    (grant) =>
      grant.environments.some((name) => name === '*' || name === wish.environment) &&
      grant.operations.some((name) => name === '*' || name === wish.operation) &&
      grant.logins.some((pattern) => matchesLogin(pattern, wish.login)),
  );
}

/** A pattern is a login, or a prefix that ends in `*`. */
function matchesLogin(pattern: string, login: string): boolean {
  return pattern.endsWith('*') ? login.startsWith(pattern.slice(0, -1)) : login === pattern;
}
