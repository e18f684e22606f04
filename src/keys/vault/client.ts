import { isDeepStrictEqual } from 'node:util';
import nodeVault from 'node-vault';
import type { z } from 'zod';
import type { VaultConfig } from '../../config/schema.ts';
import { reveal, type Secret } from '../../secret.ts';
import type { TlsMaterial } from '../../tls/material.ts';
import type { BackoffOptions } from '../../util/backoff.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import { isUnavailable, VaultError, type VaultErrorKind } from './errors.ts';
import { type Transport, type TransportRequest, transport } from './http.ts';
import { revealSecrets } from './redact.ts';
import { Resender } from './resend.ts';

/** While Vault is in trouble one request a second finds out whether it still is. */
const outageRange = { initial: 1000, max: 1000, jitter: 0 };

/** Where Vault is and how to reach it; what the configuration's `keys.vault` says, less the login. */
export type VaultAddress = Pick<VaultConfig, 'address' | 'namespace' | 'timeout'>;

/**
 * Vault's HTTP API, narrowed to what Countersign needs. A path is given without `/v1` and has to come from
 * paths.ts; a reply that has not the shape asked for is an `invalid-reply`, to a read `unexpected-content`. Every method throws only
 * {@link VaultError}.
 */
export interface VaultClient {
  read<T>(path: string, shape: z.ZodType<T>, token: Secret): Promise<T>;
  list<T>(path: string, shape: z.ZodType<T>, token: Secret): Promise<T>;
  /** A POST. Texts in `data` that are secrets come as {@link Secret}. No token: an unauthenticated login. */
  write<T>(path: string, data: object, shape: z.ZodType<T>, token?: Secret): Promise<T>;
  /** Other certificates for the connections to come; requests in flight end on theirs. */
  useTls(material: TlsMaterial): void;
  close(): void;
}

/**
 * The one place where node-vault is used. It contributes the commands; the transport is our own, and its
 * state is pinned: it would otherwise take address, token, namespace and prefix from `VAULT_*` variables,
 * remember the token of any login, and print secrets under `DEBUG=node-vault`.
 *
 * While Vault is in trouble calls fail at once (`backing-off`), but for one each second, or as soon as
 * `Retry-After` allows: the others follow once it came back.
 */
export function vaultClient(config: VaultAddress, ports: BackoffOptions, tls: TlsMaterial = {}): VaultClient {
  const open = (tls: TlsMaterial): Transport => transport({ timeout: config.timeout, ...tls });
  let inUse = tls;
  let http = open(tls);
  const outage = new CircuitBreaker(ports, outageRange);
  const resender = new Resender();
  const send = (request: TransportRequest) =>
    request.method === 'GET' ? resender.send((copy) => http.exchange(request, copy)) : http.exchange(request);
  const guarded = (request: TransportRequest) =>
    guard(outage, config.timeout, ports.monotonic, () => send(request));
  const vault = Object.assign(
    nodeVault({
      endpoint: config.address,
      debug: () => {},
      // `GET ?list=1` instead of `LIST`, a method that proxies between us and Vault may not know.
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
      shaped(await vault.write(path, revealSecrets(data), withToken(token)), shape, 'invalid-reply'),
    useTls(material) {
      if (isDeepStrictEqual(material, inUse)) return;
      inUse = material;
      http.retire();
      http = open(material);
    },
    close: () => http.close(),
  };
}

async function guard<T>(
  outage: CircuitBreaker,
  timeout: number,
  monotonic: () => number,
  exchange: () => Promise<T>,
): Promise<T> {
  outage.assertClosed();
  const begun = monotonic();
  const { failures, successes } = outage;
  if (failures > 0) outage.holdFor(timeout);
  try {
    const reply = await exchange();
    outage.reset();
    return reply;
  } catch (error) {
    if (!isUnavailable(error)) outage.reset();
    // Calls that were in flight together are one failure, and one that hung says nothing of a Vault that is back.
    // A probe that hung was itself a second, or more, in which Vault was asked once.
    else if (outage.failures === failures && outage.successes === successes) {
      outage.trip(error, monotonic() - begun);
    }
    throw error;
  }
}

/** Given with each call, so that no token outlives the call it belongs to. */
function withToken(token: Secret | undefined): { headers: Record<string, string> } {
  const headers = { 'X-Vault-Request': 'true' };
  return { headers: token === undefined ? headers : { ...headers, 'X-Vault-Token': reveal(token) } };
}

/** Neither the reply nor the validator's own words go into the error. */
function shaped<T>(reply: unknown, shape: z.ZodType<T>, kind: VaultErrorKind): T {
  const result = shape.safeParse(reply);
  if (!result.success) throw new VaultError(kind, { note: 'not the shape expected' });
  return result.data;
}
