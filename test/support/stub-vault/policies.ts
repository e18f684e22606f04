import { z } from 'zod';
import { type Backend, empty, envelope, type StubRequest, type StubResponse, text } from './protocol.ts';

const policyShape = z.object({
  path: z.record(z.string(), z.object({ capabilities: z.array(z.string()) })),
});
type Rules = z.output<typeof policyShape>['path'];

/** Vault's built-in policy `default`, which tokens have unless they are created without it. */
const defaultRules: Rules = {
  'auth/token/lookup-self': { capabilities: ['read'] },
  'auth/token/renew-self': { capabilities: ['update'] },
  'auth/token/revoke-self': { capabilities: ['update'] },
  'sys/capabilities-self': { capabilities: ['update'] },
};

const capabilityOf: Readonly<Record<string, string>> = {
  GET: 'read',
  LIST: 'list',
  POST: 'update',
  DELETE: 'delete',
};

/** ACL policies in their JSON form. A trailing `*` is a prefix; `+` is any one segment. */
export class Policies {
  readonly #rules = new Map<string, Rules>([['default', defaultRules]]);

  readonly backend: Backend = ({ method, path, body }) => {
    const name = /^sys\/policies\/acl\/([^/]+)$/.exec(path)?.[1];
    if (name !== undefined && method === 'DELETE') {
      this.#rules.delete(name);
      return empty;
    }
    if (name === undefined || method !== 'POST') return undefined;
    this.#rules.set(name, policyShape.parse(JSON.parse(text(body['policy']))).path);
    return empty;
  };

  /** `POST sys/capabilities-self`. */
  capabilities(names: readonly string[], { method, path, body }: StubRequest): StubResponse | undefined {
    if (method !== 'POST' || path !== 'sys/capabilities-self') return undefined;
    const paths = z.array(z.string()).parse(body['paths']);
    return envelope({ data: Object.fromEntries(paths.map((one) => [one, this.#of(names, one)])) });
  }

  #of(names: readonly string[], path: string): string[] {
    if (names.includes('root')) return ['root'];
    const rules = names.flatMap((name) => Object.entries(this.#rules.get(name) ?? {}));
    const found = rules.flatMap(([pattern, { capabilities }]) =>
      matches(pattern, path) ? capabilities : [],
    );
    return found.length === 0 ? ['deny'] : [...new Set(found)];
  }

  allow(names: readonly string[], { method, path }: StubRequest): boolean {
    if (names.includes('root')) return true;
    // Vault's listener appends the slash of a folder.
    const target = method === 'LIST' ? path.replace(/\/?$/, '/') : path;
    return this.#of(names, target).includes(capabilityOf[method] ?? 'none');
  }
}

function matches(pattern: string, path: string): boolean {
  const open = pattern.endsWith('*');
  const literal = (part: string) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const body = (open ? pattern.slice(0, -1) : pattern)
    .split('/')
    .map((part) => (part === '+' ? '[^/]+' : literal(part)));
  return new RegExp(`^${body.join('/')}${open ? '' : '$'}`).test(path);
}
