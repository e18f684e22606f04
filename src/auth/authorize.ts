import type { CallerConfig } from '../config/schema.ts';
import { matchesPattern } from '../identifiers.ts';

export interface AccessRequest {
  readonly environment: string;
  readonly operation: string;
  readonly login: string;
}

/** Without a matching grant, a request is denied, or in a dry run let through. */
export function decide(caller: CallerConfig, request: AccessRequest): 'allowed' | 'would-deny' | 'denied' {
  if (isGranted(caller, request)) return 'allowed';
  return caller.mode === 'dry-run' ? 'would-deny' : 'denied';
}

function isGranted({ allow }: CallerConfig, request: AccessRequest): boolean {
  return allow.some(
    (grant) =>
      isGrantedIn({ allow: [grant] }, request.environment) &&
      grant.operations.some((name) => name === '*' || name === request.operation) &&
      grant.logins.some((pattern) => matchesPattern(pattern, request.login)),
  );
}

/** Whether one of the caller's grants is for the environment. */
export function isGrantedIn({ allow }: Pick<CallerConfig, 'allow'>, environment: string): boolean {
  return allow.some(({ environments }) => environments.some((name) => name === '*' || name === environment));
}
