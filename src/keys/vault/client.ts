import { isDeepStrictEqual } from 'node:util';
import nodeVault from 'node-vault';
import type { z } from 'zod';
import type { VaultConfig } from '../../config/schema.ts';
import { reveal, Secret } from '../../secret.ts';
import type { TlsMaterial } from '../../tls/material.ts';
import type { BackoffOptions } from '../../util/backoff.ts';
import type { TlsObserver } from '../../util/tls-observer.ts';
import type { LoginRef } from '../key-source.ts';
import { assertLoginRef } from '../login-ref.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import { VaultError, type VaultErrorKind } from './errors.ts';
import { Resender, type Transport, type TransportRequest, transport } from './http.ts';

/** Path prefixes of a KV v2 mount. */
type View = 'data' | 'metadata';

export interface KvPaths {
  /** Path of the secrets engine. */
  readonly mount: string;
  secret(view: View, login: LoginRef): string;
  /** The path whose listing has the logins of an environment. */
  folder(environment: string): string;
  /** The login of a name in that listing; names of folders end in `/`. */
  loginOf(environment: string, name: string): string | undefined;
}

/** While Vault is unavailable, it is probed once per second. */
const outageRange = { initial: 1000, max: 1000, jitter: 0 };

export interface VaultClientOptions extends BackoffOptions {
  /** TLS with Vault failed: its certificate may have a new CA. */
  readonly tlsFailed?: (() => void) | undefined;
  readonly tlsObserver?: TlsObserver | undefined;
}

/** How to reach Vault: `keys.vault` of the configuration without the login. */
type VaultAddress = Pick<VaultConfig, 'address' | 'namespace' | 'timeout' | 'egressProxy'> &
  Partial<Pick<VaultConfig, 'minVersion'>>;

/**
 * The part of Vault's HTTP API that Countersign needs. Paths come from {@link kvPaths} and have no `/v1`. A response with
 * an unexpected shape is an `invalid-response`, or `unexpected-content` for a read. Every method throws only
 * {@link VaultError}.
 */
export interface VaultClient {
  read<T>(path: string, shape: z.ZodType<T>, token: Secret): Promise<T>;
  list<T>(path: string, shape: z.ZodType<T>, token: Secret): Promise<T>;
  /** A POST. Secrets in `data` are {@link Secret}s. Without a token: a login. */
  write<T>(path: string, data: object, shape: z.ZodType<T>, token?: Secret): Promise<T>;
  /** A POST that changes nothing, such as a signature: over a connection that is kept, and once more if that was stale. */
  post<T>(path: string, data: object, shape: z.ZodType<T>, token: Secret): Promise<T>;
  /** Replaces the certificates for new connections; in-flight requests finish on theirs. */
  useTls(material: TlsMaterial): void;
  close(): void;
}

/**
 * The only use of node-vault (docs/adr/0001-wrap-the-required-libraries.md). It contributes the commands; the
 * transport is our own, and its state is pinned. Otherwise it would read address, token, namespace and prefix from
 * `VAULT_*` variables, keep the token of every login, and print secrets with `DEBUG=node-vault`.
 *
 * A circuit breaker makes calls fail at once (`backing-off`) while Vault is unavailable, except for one probe per
 * second, or as soon as `Retry-After` allows.
 */
export function vaultClient(
  config: VaultAddress,
  options: VaultClientOptions,
  tls: TlsMaterial = {},
): VaultClient {
  const { address, timeout, egressProxy, minVersion } = config;
  const { tlsFailed, tlsObserver: observer } = options;
  const open = (tls: TlsMaterial): Transport =>
    transport({ address, timeout, egressProxy, minVersion, tlsFailed, observer, ...tls });
  let inUse = tls;
  let http = open(tls);
  const breaker = new CircuitBreaker(options, outageRange);
  const resender = new Resender();
  const send = (request: TransportRequest) =>
    request.method === 'GET' ? resender.send((copy) => http.send(request, copy)) : http.send(request);
  const guarded = (request: TransportRequest) => breaker.run(() => send(request));
  const vault = Object.assign(
    nodeVault({
      endpoint: address,
      debug: () => {},
      // `GET ?list=1` instead of `LIST`, a method that proxies in between may not support.
      noCustomHTTPVerbs: true,
      'request-promise': { defaults: () => guarded },
    }),
    { token: '', namespace: config.namespace ?? '', pathPrefix: '' },
  );

  return {
    read: async (path, shape, token) =>
      shaped(await vault.read(path, withToken(token)), shape, 'unexpected-content'),
    list: async (path, shape, token) =>
      shaped(await vault.list(path, withToken(token)), shape, 'unexpected-content'),
    write: async (path, data, shape, token) =>
      shaped(await vault.write(path, revealSecrets(data), withToken(token)), shape, 'invalid-response'),
    post: async (path, data, shape, token) => {
      const options = { ...withToken(token), changesNothing: true };
      return shaped(await vault.write(path, revealSecrets(data), options), shape, 'invalid-response');
    },
    useTls(material) {
      if (isDeepStrictEqual(material, inUse)) return;
      inUse = material;
      http.drain();
      http = open(material);
      breaker.close();
    },
    close: () => http.close(),
  };
}

/** Passed with each call, so that node-vault keeps no token. */
function withToken(token: Secret | undefined): { headers: Record<string, string> } {
  const headers = { 'X-Vault-Request': 'true' };
  return { headers: token === undefined ? headers : { ...headers, 'X-Vault-Token': reveal(token) } };
}

/** The error contains neither the response nor the validator's message, which may quote it. */
function shaped<T>(response: unknown, shape: z.ZodType<T>, kind: VaultErrorKind): T {
  const result = shape.safeParse(response);
  if (!result.success) throw new VaultError(kind, { note: 'unexpected shape' });
  return result.data;
}

/** Wraps every text inside a value in a {@link Secret}, so that fields are hidden from the moment they are read. */
export function hideSecrets(value: unknown): unknown {
  if (typeof value === 'string') return new Secret(value);
  return mapInside(value, hideSecrets);
}

export function hideFields(fields: object): Record<string, unknown> {
  return mapFields(fields, hideSecrets);
}

/** The opposite of {@link hideSecrets}, for requests to Vault and for parsing keys. */
function revealSecrets(value: unknown): unknown {
  if (value instanceof Secret) return reveal(value);
  return mapInside(value, revealSecrets);
}

export function revealFields(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return mapFields(fields, revealSecrets);
}

function mapInside(value: unknown, change: (inner: unknown) => unknown): unknown {
  if (Array.isArray(value)) return value.map(change);
  if (typeof value !== 'object' || value === null) return value;
  return mapFields(value, change);
}

function mapFields(fields: object, change: (inner: unknown) => unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, inner]) => [name, change(inner)]));
}

/**
 * Builds Vault paths segment by segment, so that no name can break out of its segment. The configuration's
 * validation ensures that no two logins share a path.
 *
 * @throws TypeError for an invalid mount or template, or a template without {environment} or {login}
 */
export function kvPaths({ mount, path }: Pick<VaultConfig, 'mount' | 'path'>): KvPaths {
  const template = path.split('/');
  const at = template.findIndex((segment) => segment.includes('{login}'));
  const named = template[at];
  if (named === undefined || !path.includes('{environment}')) {
    throw new TypeError('the path in Vault must contain {environment} and {login}');
  }
  const base = mountPath(mount);
  encodeSegments(template);

  return {
    mount: base,
    secret(view, login) {
      assertLoginRef(login);
      return `${base}/${view}/${encodeSegments(filled(template, login))}`;
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

/** @throws TypeError for a segment that URL normalization would remove */
function encodeSegment(segment: string): string {
  if (segment === '' || segment === '.' || segment === '..') {
    throw new TypeError('a path in Vault has an empty segment, "." or ".."');
  }
  return encodeURIComponent(segment);
}
