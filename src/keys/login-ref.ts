import { environmentPattern, isIdentifier } from '../identifiers.ts';
import type { LoginRef } from './key-source.ts';

/**
 * The last fence before an address becomes a path, of a file or in Vault: both names were checked when the
 * request was resolved, and nothing that could climb out of its place may depend on that alone.
 *
 * @throws TypeError for a name that no configuration and no request can have brought here.
 */
export function assertLoginRef({ environment, login }: LoginRef): void {
  if (!environmentPattern.test(environment)) throw new TypeError('not the name of an environment');
  if (!isIdentifier(login)) throw new TypeError('not a login');
}

/** One text an address: unambiguous, since neither name can hold a `/`. */
export function loginRefString({ environment, login }: LoginRef): string {
  return `${environment}/${login}`;
}
