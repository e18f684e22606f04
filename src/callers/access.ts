import type { CallerConfig } from '../config/shape.ts';

/** What a caller wants to do. */
export interface Wish {
  readonly environment: string;
  readonly operation: string;
  readonly login: string;
}

/** Whether one of the caller's grants covers the wish; without a grant nothing is allowed. */
export function isAllowed(caller: CallerConfig, wish: Wish): boolean {
  return caller.allow.some(
    (grant) =>
      grant.environments.some((name) => name === '*' || name === wish.environment) &&
      grant.operations.some((name) => name === '*' || name === wish.operation) &&
      grant.logins.some((pattern) => covers(pattern, wish.login)),
  );
}

/** A pattern is a login, or a prefix that ends in `*`. */
function covers(pattern: string, login: string): boolean {
  return pattern.endsWith('*') ? login.startsWith(pattern.slice(0, -1)) : login === pattern;
}
