import { AppRole } from './approle.ts';
import { Kubernetes } from './kubernetes.ts';
import { Kv2 } from './kv2.ts';
import { Policies } from './policies.ts';
import {
  type Backend,
  empty,
  envelope,
  errors,
  notFound,
  permissionDenied,
  type StubRequest,
  type StubResponse,
  text,
} from './protocol.ts';
import { type Token, Tokens } from './tokens.ts';
import { Transit } from './transit.ts';

export const rootToken = 'stub-root-token';

/** The content of a Vault, and its router. */
export class World {
  readonly tokens = new Tokens();
  readonly policies = new Policies();
  readonly kubernetes = new Kubernetes(this.tokens);
  readonly #mounts = new Map<string, Backend>();
  readonly #version1 = new Set<string>();

  constructor(now: number) {
    this.tokens.create(now, { id: rootToken, policies: ['root'], ttl: 0 });
    this.#mounts.set('secret', new Kv2().backend);
    this.#mounts.set('auth/kubernetes', this.kubernetes.backend);
  }

  respond(call: StubRequest): StubResponse {
    return this.#logIn(call) ?? this.#responseTo(this.tokens.find(call.token, call.now), call);
  }

  #responseTo(token: Token | undefined, call: StubRequest): StubResponse {
    const info = token === undefined ? undefined : this.#mountInfo(call);
    if (info !== undefined) return info;
    if (token === undefined || !this.policies.allow(token.policies, call)) return permissionDenied;
    return (
      this.policies.capabilities(token.policies, call) ??
      this.#route(call) ??
      errors(404, `no handler for route "${call.path}". route entry not found.`)
    );
  }

  /** `GET sys/internal/ui/mounts/{path}`: permitted to tokens with any access to the mount; here to all. */
  #mountInfo({ method, path }: StubRequest): StubResponse | undefined {
    const asked = /^sys\/internal\/ui\/mounts\/(.+)$/.exec(path)?.[1];
    if (method !== 'GET' || asked === undefined) return undefined;
    // As Vault does, also for a path below the mount.
    const at = [...this.#mounts.keys()].find((mount) => `${asked}/`.startsWith(`${mount}/`));
    if (at === undefined) return permissionDenied;
    const version = this.#version1.has(at) ? '1' : '2';
    return envelope({ data: { type: 'kv', path: `${at}/`, options: { version } } });
  }

  /** The only kind of path that needs no token. */
  #logIn(call: StubRequest): StubResponse | undefined {
    const isLogin = call.path.startsWith('auth/') && call.path.endsWith('/login') && call.method === 'POST';
    return isLogin ? this.#mounted(call) : undefined;
  }

  #route(call: StubRequest): StubResponse | undefined {
    const system = [this.tokens.backend, this.policies.backend, (each: StubRequest) => this.#mount(each)];
    for (const backend of system) {
      const response = backend(call);
      if (response !== undefined) return response;
    }
    return this.#mounted(call);
  }

  /** `POST sys/auth/{path}`, `POST` and `DELETE sys/mounts/{path}`; and the revocation of all tokens of auth methods. */
  #mount({ method, path, body }: StubRequest): StubResponse | undefined {
    if (method === 'POST' && path.startsWith('sys/leases/revoke-prefix/auth/')) {
      this.tokens.revokeAll();
      return empty;
    }
    const [, kind, name] = /^sys\/(auth|mounts)\/(.+)$/.exec(path) ?? [];
    if (kind === undefined || name === undefined) return undefined;
    const at = kind === 'auth' ? `auth/${name}` : name;
    if (method === 'DELETE') {
      this.#mounts.delete(at);
      this.#version1.delete(at);
      return empty;
    }
    if (this.#mounts.has(at)) return errors(400, `path is already in use at ${at}/`);
    // By default, Vault creates a version 1 mount; its paths have no `data` or `metadata`.
    const isVersion2 = JSON.stringify(body['options'] ?? {}).includes('"2"');
    const backends: Readonly<Record<string, () => Backend>> = {
      approle: () => new AppRole(this.tokens).backend,
      transit: () => new Transit().backend,
      kv: () => (isVersion2 ? new Kv2().backend : () => notFound),
    };
    const made = backends[text(body['type'])]?.();
    if (made === undefined) return errors(400, 'plugin not found in the catalog');
    this.#mounts.set(at, made);
    if (text(body['type']) === 'kv' && !isVersion2) this.#version1.add(at);
    return empty;
  }

  #mounted(call: StubRequest): StubResponse | undefined {
    for (const [mount, backend] of this.#mounts) {
      if (call.path.startsWith(`${mount}/`))
        return backend({ ...call, path: call.path.slice(mount.length + 1) });
    }
    return undefined;
  }
}
