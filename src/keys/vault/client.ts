import { isDeepStrictEqual } from 'node:util';
import nodeVault from 'node-vault';
import { z } from 'zod';
import type { VaultConfig } from '../../config/schema.ts';
import { reveal, Secret } from '../../secret.ts';
import type { TlsMaterial } from '../../tls/material.ts';
import { Backoff, type BackoffOptions, type BackoffRange } from '../../util/backoff.ts';
import type { TlsObserver } from '../../util/tls-observer.ts';
import { isUnavailable, VaultError, type VaultErrorKind } from './errors.ts';
import { Resender, type Transport, type TransportRequest, transport } from './http.ts';

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

/**
 * Blocks requests for a while after Vault was unavailable: they fail at once with `backing-off`. Then one request
 * passes as a probe, and the others still fail until it has ended.
 */
export class CircuitBreaker {
  readonly #monotonic: () => number;
  readonly #backoff: Backoff;
  #probing = false;
  #respondedAt = Number.NEGATIVE_INFINITY;
  #trippedBy: VaultError | undefined;

  constructor({ monotonic, random }: BackoffOptions, range: BackoffRange) {
    this.#monotonic = monotonic;
    this.#backoff = new Backoff(range, random);
  }

  /** @throws VaultError `backing-off`, whose message names the failure; and what the request throws */
  async run<T>(request: () => Promise<T>): Promise<T> {
    const isProbe = this.#backoff.failures() > 0;
    if (this.#probing) throw backingOff(1000, this.#trippedBy);
    assertDue(this.#backoff, this.#monotonic(), this.#trippedBy);
    this.#probing = isProbe;
    const beganAt = this.#monotonic();
    try {
      const response = await request();
      this.close();
      return response;
    } catch (error) {
      if (isUnavailable(error)) this.#trip(error, beganAt);
      else this.close();
      throw error;
    } finally {
      if (isProbe) this.#probing = false;
    }
  }

  /** A request that hung does not count if Vault has responded since. The time that it hung is part of the wait. */
  #trip(error: VaultError, beganAt: number): void {
    if (beganAt < this.#respondedAt) return;
    this.#trippedBy = error;
    this.#backoff.recordFailure(this.#monotonic(), { beganAt, atLeast: error.retryAfter });
  }

  /** Vault has responded, or what it failed for was replaced. */
  close(): void {
    this.#respondedAt = this.#monotonic();
    this.#backoff.reset();
  }
}

/**
 * @param key of the back-off
 * @throws VaultError `backing-off` while the next attempt is not due
 */
export function assertDue(backoff: Backoff, now: number, last: VaultError | undefined, key?: string): void {
  if (!backoff.isDue(now, key)) throw backingOff(backoff.remaining(now, key), last);
}

function backingOff(milliseconds: number, last: VaultError | undefined): VaultError {
  const note = last === undefined ? {} : { note: `last: ${last.message}` };
  return new VaultError('backing-off', { retryAfter: milliseconds / 1000, cause: last, ...note });
}

/** By path. */
const capabilitiesShape = z.object({ data: z.record(z.string(), z.array(z.string())) });

/**
 * What the token may do with paths (`sys/capabilities-self`). Policies name them as they are, and not encoded for a URL.
 *
 * @throws VaultError
 */
export async function permissionsOf(client: VaultClient, token: Secret, encoded: readonly string[]) {
  const paths = encoded.map(decodeURIComponent);
  const { data } = await client.write('sys/capabilities-self', { paths }, capabilitiesShape, token);
  return (path: string, ...rights: readonly string[]): boolean =>
    data[decodeURIComponent(path)]?.some((right) => [...rights, 'root'].includes(right)) === true;
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

/** A mount may have several segments (`team/kv`). */
export function mountPath(mount: string): string {
  return encodeSegments(mount.split('/'));
}

export function encodeSegments(segments: readonly string[]): string {
  return segments.map(encodeSegment).join('/');
}

/** @throws TypeError for a segment that URL normalization would remove */
export function encodeSegment(segment: string): string {
  if (segment === '' || segment === '.' || segment === '..') {
    throw new TypeError('a path in Vault has an empty segment, "." or ".."');
  }
  return encodeURIComponent(segment);
}
