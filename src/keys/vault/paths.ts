import type { VaultConfig } from '../../config/schema.ts';
import type { LoginRef } from '../key-source.ts';
import { assertLoginRef } from '../login-ref.ts';

/** A KV v2 mount shows the same secret under several prefixes. */
type View = 'data' | 'metadata';

export interface KvPaths {
  /** Where the secrets engine is. */
  readonly mount: string;
  secret(view: View, address: LoginRef): string;
  /** The folder whose listing names the logins of an environment. */
  folder(environment: string): string;
  /** The login that a name in that listing stands for; folders end in `/`. */
  loginOf(environment: string, name: string): string | undefined;
}

/**
 * Builds paths in Vault segment by segment. That no two addresses share a path is the configuration's to see
 * to; here nothing that stands in an address can lead out of its segment.
 *
 * @throws TypeError for a mount or template that is no path, or lacks {environment} or {login}.
 */
export function kvPaths({ mount, path }: Pick<VaultConfig, 'mount' | 'path'>): KvPaths {
  const template = path.split('/');
  const at = template.findIndex((segment) => segment.includes('{login}'));
  const named = template[at];
  if (named === undefined || !path.includes('{environment}')) {
    throw new TypeError('the path in Vault must hold {environment} and {login}');
  }
  const base = mountPath(mount);
  encodeSegments(template);

  return {
    mount: base,
    secret(view, address) {
      assertLoginRef(address);
      return `${base}/${view}/${encodeSegments(filled(template, address))}`;
    },
    folder(environment) {
      const anyLogin = { environment, login: '-' };
      assertLoginRef(anyLogin);
      const folder = filled(template.slice(0, at), anyLogin);
      return [base, 'metadata', ...folder.map(encodeSegment)].join('/');
    },
    loginOf(environment, name) {
      const [before = '', after = ''] = named.replaceAll('{environment}', environment).split('{login}');
      const end = at < template.length - 1 ? `${after}/` : after;
      const login = name.slice(before.length, name.length - end.length);
      return login !== '' && !login.endsWith('/') && name === `${before}${login}${end}` ? login : undefined;
    },
  };
}

function filled(segments: readonly string[], { environment, login }: LoginRef): readonly string[] {
  return segments.map((segment) =>
    segment.replaceAll('{environment}', environment).replaceAll('{login}', login),
  );
}

/** A mount may have several segments (`team/kv`). */
export function mountPath(mount: string): string {
  return encodeSegments(mount.split('/'));
}

function encodeSegments(segments: readonly string[]): string {
  return segments.map(encodeSegment).join('/');
}

/** @throws TypeError for a segment that a URL would resolve away. */
function encodeSegment(segment: string): string {
  if (segment === '' || segment === '.' || segment === '..') {
    throw new TypeError('a path in Vault has an empty segment, "." or ".."');
  }
  return encodeURIComponent(segment);
}
