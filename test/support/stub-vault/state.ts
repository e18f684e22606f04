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

  /**
   * `POST sys/auth/{path}` and `POST sys/mounts/{path}`, or `GET` and `DELETE` for existing ones; and the
   * revocation of all tokens of auth methods.
   */
  #mount({ method, path, body }: StubRequest): StubResponse | undefined {
    const [, kind, name] = /^sys\/(auth|mounts)\/(.+)$/.exec(path) ?? [];
    if (method === 'POST' && path.startsWith('sys/leases/revoke-prefix/auth/')) {
      this.tokens.revokeAll();
      return empty;
    }
    if (kind === undefined || name === undefined) return undefined;
    const at = kind === 'auth' ? `auth/${name}` : name;
    if (method === 'GET')
      return this.#mounts.has(at) ? envelope({ data: {} }) : errors(400, `no mount at ${at}`);
    if (method === 'DELETE') {
      this.#mounts.delete(at);
      this.#version1.delete(at);
      if (kind === 'auth') this.tokens.revokeAll();
      return empty;
    }
    if (this.#mounts.has(at)) return errors(400, `path is already in use at ${at}/`);
    if (text(body['type']) === 'approle') this.#mounts.set(at, new AppRole(this.tokens).backend);
    else if (text(body['type']) === 'transit') this.#mounts.set(at, new Transit().backend);
    else if (text(body['type']) === 'kv') {
      // By default, Vault creates a version 1 mount; its paths have no `data` or `metadata`.
      const isVersion2 = JSON.stringify(body['options'] ?? {}).includes('"2"');
      this.#mounts.set(at, isVersion2 ? new Kv2().backend : () => notFound);
      if (!isVersion2) this.#version1.add(at);
    } else return errors(400, `plugin not found in the catalog: ${text(body['type'])}`);
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
