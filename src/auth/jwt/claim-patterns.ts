import type { CallerConfig } from '../../config/schema.ts';
import { matchesPattern } from '../pattern.ts';
import type { Claims } from './parse-token.ts';

export type JwtCredential = Extract<CallerConfig['credentials'][number], { jwt: unknown }>['jwt'];

/** Whether verified claims are those that a credential demands. */
export function matchesClaims({ subject, claims: wanted }: JwtCredential, claims: Claims): boolean {
  return (
    (subject === undefined || matches(subject, claims['sub'])) &&
    Object.entries(wanted).every(([name, pattern]) => hasMatch(pattern, claims[name]))
  );
}

/** A list matches if one of its texts does, as in `groups`. */
function hasMatch(pattern: string, value: unknown): boolean {
  return Array.isArray(value) ? value.some((item) => matches(pattern, item)) : matches(pattern, value);
}

function matches(pattern: string, value: unknown): boolean {
  return typeof value === 'string' && matchesPattern(pattern, value);
}
