import { z } from 'zod';
import { type Backend, empty, type StubRequest, text } from './protocol.ts';

const policyShape = z.object({
  path: z.record(z.string(), z.object({ capabilities: z.array(z.string()) })),
});
type Rules = z.output<typeof policyShape>['path'];

/** Vault's built-in policy `default`, which tokens have unless they are created without it. */
const defaultRules: Rules = {
  'auth/token/lookup-self': { capabilities: ['read'] },
  'auth/token/renew-self': { capabilities: ['update'] },
  'auth/token/revoke-self': { capabilities: ['update'] },
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

  allow(names: readonly string[], { method, path }: StubRequest): boolean {
    if (names.includes('root')) return true;
    const capability = capabilityOf[method] ?? 'none';
    return names.some((name) =>
      Object.entries(this.#rules.get(name) ?? {}).some(
        ([pattern, { capabilities }]) => matches(pattern, path) && capabilities.includes(capability),
      ),
    );
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
