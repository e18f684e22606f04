import type { CallerConfig } from '../config/schema.ts';

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

/** Whether a text is the pattern, or begins with it where the pattern ends with `*`. */
export function matchesPattern(pattern: string, text: string): boolean {
  return pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : text === pattern;
}
