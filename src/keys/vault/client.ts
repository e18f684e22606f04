import { isDeepStrictEqual } from 'node:util';
import nodeVault from 'node-vault';
import { z } from 'zod';
import type { TlsMaterial } from '../../net/tls-material.ts';
import { reveal, Secret } from '../../secret.ts';
import { isVaultError, VaultError, type VaultErrorKind } from './errors.ts';
import {
  Resender,
  type TransportOptions,
  type TransportRequest,
  transport,
  type VaultAddress,
} from './http.ts';

type Shape<T> = z.ZodType<T>;

export type VaultClient = ReturnType<typeof vaultClient>;

/**
 * The only use of node-vault (docs/adr/0001-wrap-the-required-libraries.md). It contributes the commands; the
 * transport is our own, and its state is pinned. Otherwise it would read address, token, namespace and prefix from
 * `VAULT_*` variables, keep the token of every login, and print secrets with `DEBUG=node-vault`.
 *
 * The part of Vault's HTTP API that Countersign needs. Paths come from {@link kvPaths} and have no `/v1`. A response with
 * an unexpected shape is an `invalid-response`, or `unexpected-content` for a read. Every method throws only
 * {@link VaultError}.
 */
export function vaultClient(config: VaultAddress, options: TransportOptions = {}, tls: TlsMaterial = {}) {
  const open = (material: TlsMaterial) => transport(config, options, material);
  let inUse = tls;
  let http = open(tls);
  const resender = new Resender();
  const send = (request: TransportRequest) =>
    request.method === 'GET'
      ? resender.send((copy) => http.send(request, copy))
      : http.send(request, { signal: request.signal });
  const vault = Object.assign(
    nodeVault({
      endpoint: config.address,
      debug: () => {},
      // `GET ?list=1` instead of `LIST`, a method that proxies in between may not support.
      noCustomHTTPVerbs: true,
      'request-promise': { defaults: () => send },
    }),
    { token: '', namespace: config.namespace ?? '', pathPrefix: '' },
  );

  return {
    read: <T>(path: string, shape: Shape<T>, token: Secret): Promise<T> =>
      shaped(vault.read(path, tokenHeader(token)), shape, 'unexpected-content'),
    list: <T>(path: string, shape: Shape<T>, token: Secret): Promise<T> =>
      shaped(vault.list(path, tokenHeader(token)), shape, 'unexpected-content'),
    /** A POST. Secrets in `data` are {@link Secret}s. Without a token: a login. */
    write: <T>(path: string, data: object, shape: Shape<T>, token?: Secret): Promise<T> =>
      shaped(vault.write(path, revealFields(data), tokenHeader(token)), shape, 'invalid-response'),
    /** A POST that changes nothing, such as a signature: over a connection that is kept, and once more if that was stale. */
    post: <T>(
      path: string,
      data: object,
      shape: Shape<T>,
      token: Secret,
      signal?: AbortSignal,
    ): Promise<T> => {
      const options = { ...tokenHeader(token), changesNothing: true, signal };
      return shaped(vault.write(path, revealFields(data), options), shape, 'invalid-response');
    },
    /** Replaces the certificates for new connections; in-flight requests finish on theirs. */
    useTls(material: TlsMaterial): void {
      if (isDeepStrictEqual(material, inUse)) return;
      inUse = material;
      http.drain();
      http = open(material);
    },
    close: (): void => http.close(),
  };
}

/** Of a TokenManager. */
interface Tokens {
  withToken<T>(work: (token: Secret) => Promise<T>): Promise<T>;
}

export type AuthenticatedClient = ReturnType<typeof authenticatedClient>;

/**
 * The same requests as those of the client, each with the current token. What is still `denied` is denied to it, and not
 * because it was revoked.
 */
export function authenticatedClient(client: VaultClient, tokens: Tokens) {
  return {
    read: <T>(path: string, shape: Shape<T>) => tokens.withToken((token) => client.read(path, shape, token)),
    /** `undefined` if it is denied. The token is not suspected then, which could cost a login. */
    readIfPermitted: <T>(path: string, shape: Shape<T>): Promise<T | undefined> =>
      tokens.withToken((token) => client.read(path, shape, token).catch(ifDenied)),
    list: <T>(path: string, shape: Shape<T>) => tokens.withToken((token) => client.list(path, shape, token)),
    write: <T>(path: string, data: object, shape: Shape<T>) =>
      tokens.withToken((token) => client.write(path, data, shape, token)),
    post: <T>(path: string, data: object, shape: Shape<T>, signal?: AbortSignal) =>
      tokens.withToken((token) => client.post(path, data, shape, token, signal)),
  };
}

function ifDenied(error: unknown): undefined {
  if (!isVaultError(error, 'denied')) throw error;
}

/** By path. */
const capabilitiesShape = z.object({ data: z.record(z.string(), z.array(z.string())) });

/**
 * What the token may do with paths (`sys/capabilities-self`). Policies name them as they are, and not encoded for a URL.
 *
 * @throws VaultError
 */
export async function permissionsOf(client: AuthenticatedClient, encoded: readonly string[]) {
  const paths = encoded.map(decodeURIComponent);
  const { data } = await client.write('sys/capabilities-self', { paths }, capabilitiesShape);
  return (path: string, ...rights: readonly string[]): boolean =>
    data[decodeURIComponent(path)]?.some((right) => [...rights, 'root'].includes(right)) === true;
}

/** Passed with each call, so that node-vault keeps no token. */
function tokenHeader(token: Secret | undefined): { headers: Record<string, string> } {
  return { headers: token === undefined ? {} : { 'X-Vault-Token': reveal(token) } };
}

/** The error contains neither the response nor the validator's message, which may quote it. */
async function shaped<T>(response: Promise<unknown>, shape: Shape<T>, kind: VaultErrorKind): Promise<T> {
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
