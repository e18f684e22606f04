import { isDeepStrictEqual } from 'node:util';
import nodeVault from 'node-vault';
import { z } from 'zod';
import { reveal, Secret } from '../../secret.ts';
import type { TlsMaterial } from '../../tls/material.ts';
import { Backoff, type BackoffOptions, type BackoffRange } from '../../util/backoff.ts';
import { isUnavailable, VaultError, type VaultErrorKind } from './errors.ts';
import {
  Resender,
  type TransportOptions,
  type TransportRequest,
  transport,
  type VaultAddress,
} from './http.ts';

/** While Vault is unavailable, it is probed once per second. */
const outageRange = { initial: 1000, max: 1000, jitter: 0 };

export type VaultClient = ReturnType<typeof vaultClient>;

/**
 * The only use of node-vault (docs/adr/0001-wrap-the-required-libraries.md). It contributes the commands; the
 * transport is our own, and its state is pinned. Otherwise it would read address, token, namespace and prefix from
 * `VAULT_*` variables, keep the token of every login, and print secrets with `DEBUG=node-vault`.
 *
 * The part of Vault's HTTP API that Countersign needs. Paths come from {@link kvPaths} and have no `/v1`. A response with
 * an unexpected shape is an `invalid-response`, or `unexpected-content` for a read. Every method throws only
 * {@link VaultError}. A circuit breaker makes calls fail at once (`backing-off`) while Vault is unavailable, except for
 * one probe per second, or as soon as `Retry-After` allows.
 */
export function vaultClient(
  config: VaultAddress,
  options: BackoffOptions & TransportOptions,
  tls: TlsMaterial = {},
) {
  const open = (material: TlsMaterial) => transport(config, options, material);
  let inUse = tls;
  let http = open(tls);
  const breaker = new CircuitBreaker(options, outageRange);
  const resender = new Resender();
  const send = (request: TransportRequest) =>
    request.method === 'GET' ? resender.send((copy) => http.send(request, copy)) : http.send(request);
  const guarded = (request: TransportRequest) => breaker.run(() => send(request));
  const vault = Object.assign(
    nodeVault({
      endpoint: config.address,
      debug: () => {},
      // `GET ?list=1` instead of `LIST`, a method that proxies in between may not support.
      noCustomHTTPVerbs: true,
      'request-promise': { defaults: () => guarded },
    }),
    { token: '', namespace: config.namespace ?? '', pathPrefix: '' },
  );
  type Shape<T> = z.ZodType<T>;

  return {
    read: <T>(path: string, shape: Shape<T>, token: Secret): Promise<T> =>
      shaped(vault.read(path, withToken(token)), shape, 'unexpected-content'),
    list: <T>(path: string, shape: Shape<T>, token: Secret): Promise<T> =>
      shaped(vault.list(path, withToken(token)), shape, 'unexpected-content'),
    /** A POST. Secrets in `data` are {@link Secret}s. Without a token: a login. */
    write: <T>(path: string, data: object, shape: Shape<T>, token?: Secret): Promise<T> =>
      shaped(vault.write(path, revealFields(data), withToken(token)), shape, 'invalid-response'),
    /** A POST that changes nothing, such as a signature: over a connection that is kept, and once more if that was stale. */
    post: <T>(path: string, data: object, shape: Shape<T>, token: Secret): Promise<T> => {
      const options = { ...withToken(token), changesNothing: true };
      return shaped(vault.write(path, revealFields(data), options), shape, 'invalid-response');
    },
    /** Replaces the certificates for new connections; in-flight requests finish on theirs. */
    useTls(material: TlsMaterial): void {
      if (isDeepStrictEqual(material, inUse)) return;
      inUse = material;
      http.drain();
      http = open(material);
      breaker.close();
    },
    close: (): void => http.close(),
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
      if (!isUnavailable(error)) {
        this.close();
        // A request that hung does not count if Vault has responded since. The time that it hung is part of the wait.
      } else if (beganAt >= this.#respondedAt) {
        this.#trippedBy = error;
        this.#backoff.recordFailure(this.#monotonic(), { beganAt, atLeast: error.retryAfter });
      }
      throw error;
    } finally {
      if (isProbe) this.#probing = false;
    }
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
  const note = last && `last: ${last.message}`;
  return new VaultError('backing-off', { retryAfter: milliseconds / 1000, cause: last, note });
}

/** Passed with each call, so that node-vault keeps no token. */
function withToken(token: Secret | undefined): { headers: Record<string, string> } {
  return { headers: token === undefined ? {} : { 'X-Vault-Token': reveal(token) } };
}

/** The error contains neither the response nor the validator's message, which may quote it. */
async function shaped<T>(response: Promise<unknown>, shape: z.ZodType<T>, kind: VaultErrorKind): Promise<T> {
  const result = shape.safeParse(await response);
  if (!result.success) throw new VaultError(kind, { note: 'unexpected shape' });
  return result.data;
}

/** The fields of a secret, or of a request to Vault. */
export type Fields = Readonly<Record<string, unknown>>;

/** Wraps every text, at any depth, in a {@link Secret}, so that fields are hidden from the moment they are read. */
export function hideFields(fields: object): Fields {
  return mapFields(fields, (value) => (typeof value === 'string' ? new Secret(value) : value));
}

/** The opposite of {@link hideFields}, for requests to Vault and for parsing keys. */
export function revealFields(fields: object): Fields {
  return mapFields(fields, (value) => (value instanceof Secret ? reveal(value) : value));
}

function mapFields(fields: object, change: (value: unknown) => unknown): Fields {
  const inside = (value: unknown): unknown => {
    const changed = change(value);
    if (Array.isArray(changed)) return changed.map(inside);
    const isObject = typeof changed === 'object' && changed !== null && !(changed instanceof Secret);
    return isObject ? mapFields(changed, change) : changed;
  };
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, inside(value)]));
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
