import type { CallerConfig } from '../config/schema.ts';
import { matchesPattern } from './pattern.ts';

export interface AccessRequest {
  readonly environment: string;
  readonly operation: string;
  readonly login: string;
}

/** Whether one of the caller's grants covers the request. Without a matching grant, access is denied. */
export function isAllowed(caller: CallerConfig, request: AccessRequest): boolean {
  return caller.allow.some(
    (grant) =>
      grant.environments.some((name) => name === '*' || name === request.environment) &&
      grant.operations.some((name) => name === '*' || name === request.operation) &&
      grant.logins.some((pattern) => matchesPattern(pattern, request.login)),
  );
}
