import type { VaultConfig } from '../../config/shape.ts';
import { checkAddress } from '../address.ts';
import type { KeyAddress } from '../source.ts';

/** A KV v2 mount shows the same secret under several prefixes. */
type View = 'data' | 'metadata';

export interface KvPaths {
  secret(view: View, address: KeyAddress): string;
  /** The folder in which the logins of an environment stand. */
  folder(environment: string): string;
  /** Whether each login is itself a folder, so that a listing shows it as `login/`. */
  readonly loginIsFolder: boolean;
}

/**
 * Builds paths in Vault segment by segment. `{login}` has to be a whole segment and to come after
 * `{environment}`: so no two logins, and no two environments, can share a secret.
 *
 * @throws TypeError for a mount or template that does not allow that.
 */
export function kvPaths({ mount, path }: Pick<VaultConfig, 'mount' | 'path'>): KvPaths {
  const template = path.split('/');
  const at = template.indexOf('{login}');
  const before = template.slice(0, at);
  if (at < 0 || !before.some((segment) => segment.includes('{environment}'))) {
    throw new TypeError('the path in Vault must hold {environment}, and after it {login} as a whole segment');
  }
  const base = mountPath(mount);
  const fill = (segments: readonly string[], { environment, login }: KeyAddress): string =>
    segments
      .map((segment) => segment.replaceAll('{environment}', environment).replaceAll('{login}', login))
      .map(encodeSegment)
      .join('/');

  return {
    secret(view, address) {
      checkAddress(address);
      return `${base}/${view}/${fill(template, address)}`;
    },
    folder(environment) {
      const anyLogin = { environment, login: '-' };
      checkAddress(anyLogin);
      return `${base}/metadata/${fill(before, anyLogin)}`;
    },
    loginIsFolder: at < template.length - 1,
  };
}

/** A mount may have several segments (`team/kv`). */
export function mountPath(mount: string): string {
  return mount.split('/').map(encodeSegment).join('/');
}

/** @throws TypeError for a segment that a URL would resolve away. */
function encodeSegment(segment: string): string {
  if (segment === '' || segment === '.' || segment === '..') {
    throw new TypeError('a path in Vault has an empty segment, "." or ".."');
  }
  return encodeURIComponent(segment);
}
