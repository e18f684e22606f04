import { z } from 'zod';
import { Secret } from '../../secret.ts';
import type { VaultClient } from './client.ts';
import { mountPath } from './paths.ts';

export interface TokenLease {
  readonly token: Secret;
  /** 0: does not expire. */
  readonly seconds: number;
  /** Full lifetime in seconds, as far as Vault reports it; {@link seconds} are left. */
  readonly wholeSeconds: number;
  readonly renewable: boolean;
  /** Maximum number of requests, if limited. */
  readonly uses?: number;
}

const seconds = z.number().min(0);
const text = z.string().min(1);

/** A response without `auth` is not a login, even with status 200. */
const authShape = z.object({
  auth: z
    .object({
      client_token: text,
      lease_duration: seconds,
      renewable: z.boolean(),
      num_uses: z.int().min(0).default(0),
    })
    .transform(
      (auth): TokenLease => ({
        token: new Secret(auth.client_token),
        seconds: auth.lease_duration,
        wholeSeconds: auth.lease_duration,
        renewable: auth.renewable,
        ...(auth.num_uses === 0 ? {} : { uses: auth.num_uses }),
      }),
    ),
});
/** A token that never expires has no `expire_time`. (An expiring one may have a `ttl` of 0 as well.) */
const lookupShape = z.object({
  data: z.object({
    ttl: seconds,
    creation_ttl: seconds.default(0),
    renewable: z.boolean().default(false),
    expire_time: z.string().nullable(),
  }),
});
const secretIdShape = z.object({ data: z.object({ secret_id: text.transform((id) => new Secret(id)) }) });

/** `POST /auth/:mount/login`, the same for AppRole and Kubernetes. */
export async function logIn(client: VaultClient, mount: string, credentials: object): Promise<TokenLease> {
  return (await client.write(`auth/${mountPath(mount)}/login`, credentials, authShape)).auth;
}

/** `POST /auth/token/renew-self`. */
export async function renewSelf(client: VaultClient, token: Secret): Promise<TokenLease> {
  return (await client.write('auth/token/renew-self', {}, authShape, token)).auth;
}

/** `POST /auth/token/revoke-self`: revokes the token and its leases. */
export async function revokeSelf(client: VaultClient, token: Secret): Promise<void> {
  await client.write('auth/token/revoke-self', {}, z.unknown(), token);
}

/** `GET /auth/token/lookup-self`: the lease of a token that we did not obtain ourselves. */
export async function lookUpSelf(client: VaultClient, token: Secret): Promise<TokenLease> {
  const { data } = await client.read('auth/token/lookup-self', lookupShape, token);
  const seconds = data.expire_time === null ? 0 : Math.max(data.ttl, 1);
  // A renewable token is renewed within the time left, so its original lifetime does not matter.
  const wholeSeconds = data.renewable ? seconds : Math.max(data.creation_ttl, seconds);
  return { token, seconds, wholeSeconds, renewable: data.renewable };
}

/** `POST /sys/wrapping/unwrap`: the secret ID in a response-wrapping token, which works once. */
export async function unwrapSecretId(client: VaultClient, wrapping: Secret): Promise<Secret> {
  return (await client.write('sys/wrapping/unwrap', {}, secretIdShape, wrapping)).data.secret_id;
}
