import { isDeepStrictEqual } from 'node:util';
import nodeVault from 'node-vault';
import type { z } from 'zod';
import type { VaultConfig } from '../../config/schema.ts';
import { reveal, type Secret } from '../../secret.ts';
import type { TlsMaterial } from '../../tls/material.ts';
import type { BackoffOptions } from '../../util/backoff.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import { VaultError, type VaultErrorKind } from './errors.ts';
import { Resender, type Transport, type TransportRequest, transport } from './http.ts';
import { revealSecrets } from './redact.ts';

/** While Vault is unavailable, it is probed once per second. */
const outageRange = { initial: 1000, max: 1000, jitter: 0 };

export interface VaultClientOptions extends BackoffOptions {
  /** TLS with Vault failed: its certificate may have a new CA. */
  readonly tlsFailed?: (() => void) | undefined;
}

/** How to reach Vault: `keys.vault` of the configuration without the login. */
export type VaultAddress = Pick<VaultConfig, 'address' | 'namespace' | 'timeout'>;

/**
 * The part of Vault's HTTP API that Countersign needs. Paths come from paths.ts and have no `/v1`. A response with
 * an unexpected shape is an `invalid-response`, or `unexpected-content` for a read. Every method throws only
 * {@link VaultError}.
 */
export interface VaultClient {
  read<T>(path: string, shape: z.ZodType<T>, token: Secret): Promise<T>;
  list<T>(path: string, shape: z.ZodType<T>, token: Secret): Promise<T>;
  /** A POST. Secrets in `data` are {@link Secret}s. Without a token: a login. */
  write<T>(path: string, data: object, shape: z.ZodType<T>, token?: Secret): Promise<T>;
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
  const open = (tls: TlsMaterial): Transport =>
    transport({ address: config.address, timeout: config.timeout, tlsFailed: options.tlsFailed, ...tls });
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

  return {
    read: async (path, shape, token) =>
      shaped(await vault.read(path, withToken(token)), shape, 'unexpected-content'),
    list: async (path, shape, token) =>
      shaped(await vault.list(path, withToken(token)), shape, 'unexpected-content'),
    write: async (path, data, shape, token) =>
      shaped(await vault.write(path, revealSecrets(data), withToken(token)), shape, 'invalid-response'),
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
