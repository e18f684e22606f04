import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import type { VaultConfig } from '../../config/schema.ts';
import { reveal, Secret } from '../../secret.ts';
import { mountPath, type VaultClient } from './client.ts';
import { isVaultError, VaultError } from './errors.ts';

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

type AuthConfig = VaultConfig['auth'];
type AuthOf<Method extends AuthConfig['method']> = Extract<AuthConfig, { method: Method }>;

export interface Credentials {
  /** Identifies credentials, so that rejected ones are not tried again. */
  readonly fingerprint: string;
  readonly logIn: () => Promise<TokenLease>;
}

export interface AuthMethod {
  readonly name: AuthConfig['method'];
  /** Whether a login returns a new token. A configured token can only be looked up again. */
  readonly givesNewTokens: boolean;
  /** Reads the files each time. @throws VaultError `no-credentials` */
  credentials(): Promise<Credentials>;
}

export function authMethod(auth: AuthConfig, client: VaultClient): AuthMethod {
  if (auth.method === 'token') {
    const credentials = async (): Promise<Credentials> => {
      const token = await valueOrFile(auth.token, auth.tokenFile);
      return { fingerprint: fingerprintOf(token), logIn: () => lookUpSelf(client, token) };
    };
    return { name: auth.method, givesNewTokens: false, credentials };
  }
  const credentials = auth.method === 'approle' ? appRole(auth, client) : kubernetes(auth, client);
  return { name: auth.method, givesNewTokens: true, credentials };
}

function appRole(auth: AuthOf<'approle'>, client: VaultClient): AuthMethod['credentials'] {
  const unwrap = unwrapOnce(client);
  return async () => {
    const roleId = await valueOrFile(auth.roleId, auth.roleIdFile);
    const file = auth.wrappedSecretIdFile ?? auth.secretIdFile;
    // A role with `bind_secret_id: false` has none.
    const secret = file === undefined ? undefined : await secretFile(file);
    return {
      fingerprint: fingerprintOf(roleId, secret),
      logIn: async () => {
        const isWrapped = auth.wrappedSecretIdFile !== undefined && secret !== undefined;
        const secretId = isWrapped ? await unwrap(secret) : secret;
        return logIn(client, auth.mount, { role_id: roleId, secret_id: secretId });
      },
    };
  };
}

function kubernetes({ mount, role, jwtFile }: AuthOf<'kubernetes'>, client: VaultClient) {
  return async (): Promise<Credentials> => {
    const jwt = await secretFile(jwtFile);
    return { fingerprint: fingerprintOf(jwt), logIn: () => logIn(client, mount, { role, jwt }) };
  };
}

/** A wrapping token works once, so its content is kept until the file has another token. */
function unwrapOnce(client: VaultClient): (wrapping: Secret) => Promise<Secret> {
  let last: { readonly wrapping: string; readonly secretId: Secret } | undefined;
  return async (wrapping) => {
    const fingerprint = fingerprintOf(wrapping);
    if (last?.wrapping !== fingerprint) {
      last = { wrapping: fingerprint, secretId: await unwrapSecretId(client, wrapping).catch(asSpent) };
    }
    return last.secretId;
  };
}

/** After a restart the file still has the token that the process before used. */
function asSpent(error: unknown): never {
  if (!isVaultError(error, 'rejected', 'denied')) throw error;
  throw new VaultError('spent-wrapping', error.status === undefined ? {} : { status: error.status });
}

async function valueOrFile(value: Secret | string | undefined, file: string | undefined): Promise<Secret> {
  if (file !== undefined) return secretFile(file);
  if (value === undefined) throw new VaultError('no-credentials', { note: 'none configured' });
  return typeof value === 'string' ? new Secret(value) : value;
}

async function secretFile(file: string): Promise<Secret> {
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text === undefined) throw new VaultError('no-credentials', { note: `cannot read ${file}` });
  if (text.trim() === '') throw new VaultError('no-credentials', { note: `${file} is empty` });
  return new Secret(text.trim());
}

function fingerprintOf(...secrets: readonly (Secret | undefined)[]): string {
  const texts = secrets.map((secret) => (secret === undefined ? null : reveal(secret)));
  return createHash('sha256').update(JSON.stringify(texts)).digest('hex');
}

/** `POST /auth/:mount/login`, the same for AppRole and Kubernetes. */
async function logIn(client: VaultClient, mount: string, credentials: object): Promise<TokenLease> {
  return (await client.write(`auth/${mountPath(mount)}/login`, credentials, authShape)).auth;
}

/** `POST /auth/token/renew-self`. */
export async function renewSelf(client: VaultClient, token: Secret): Promise<TokenLease> {
  return (await client.write('auth/token/renew-self', {}, authShape, token)).auth;
}

/** `POST /auth/token/revoke-self`: revokes the token and its leases. Never rejects. */
export async function revokeSelf(client: VaultClient, token: Secret): Promise<void> {
  await client.write('auth/token/revoke-self', {}, z.unknown(), token).catch(() => {
    // Without that permission it expires with its lease.
  });
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
async function unwrapSecretId(client: VaultClient, wrapping: Secret): Promise<Secret> {
  return (await client.write('sys/wrapping/unwrap', {}, secretIdShape, wrapping)).data.secret_id;
}
