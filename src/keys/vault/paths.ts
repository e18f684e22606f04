import type { VaultConfig } from '../../config/schema.ts';
import { assertLoginRef, type LoginRef } from '../login-ref.ts';

/**
 * Builds Vault paths segment by segment, so that no name can break out of its segment. The configuration's
 * validation ensures that no two logins share a path.
 *
 * @throws TypeError for an invalid mount or template, or a template without {environment} or {login}
 */
export function kvPaths({ mount, path }: Pick<VaultConfig, 'mount' | 'path'>) {
  const template = path.split('/');
  const at = template.findIndex((segment) => segment.includes('{login}'));
  const named = template[at];
  if (named === undefined || !path.includes('{environment}')) {
    throw new TypeError('the path in Vault must contain {environment} and {login}');
  }
  const base = mountPath(mount);
  encodeSegments(template);

  return {
    /** Path of the secrets engine. */
    mount: base,
    secret(view: 'data' | 'metadata', login: LoginRef): string {
      assertLoginRef(login);
      return `${base}/${view}/${encodeSegments(filled(template, login))}`;
    },
    /** The path whose listing has the logins of an environment. */
    folder(environment: string): string {
      const anyLogin = { environment, login: '-' };
      assertLoginRef(anyLogin);
      const folder = filled(template.slice(0, at), anyLogin);
      return [base, 'metadata', ...folder.map(encodeSegment)].join('/');
    },
    /** The login of a name in that listing; names of folders end in `/`. */
    loginOf(environment: string, name: string): string | undefined {
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

/** @throws TypeError for a segment that URL normalization would remove */
function encodeSegment(segment: string): string {
  if (segment === '' || segment === '.' || segment === '..') {
    throw new TypeError('a path in Vault has an empty segment, "." or ".."');
  }
  return encodeURIComponent(segment);
}
