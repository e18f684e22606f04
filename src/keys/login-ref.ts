import { environmentPattern, identifierPattern } from '../identifiers.ts';

/** Identifies a secret: the same login has a different one in each environment. */
export interface LoginRef {
  readonly environment: string;
  readonly login: string;
}

/**
 * Last check before the names become part of a path, of a file or in Vault. Both were validated with the request;
 * this is a second line of defense against path traversal.
 *
 * @throws TypeError for an invalid name, which means that an earlier check is broken
 */
export function assertLoginRef({ environment, login }: LoginRef): void {
  if (!environmentPattern.test(environment)) throw new TypeError('not the name of an environment');
  if (!identifierPattern.test(login)) throw new TypeError('not a login');
}

/** Unambiguous, for map keys: neither name can contain a `/`. */
export function loginRefString({ environment, login }: LoginRef): string {
  return `${environment}/${login}`;
}
