import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { VaultConfig } from '../../config/schema.ts';
import { readSecret } from '../../read-files.ts';
import { reveal, Secret } from '../../secret.ts';
import { type SecretForm, secretText } from '../../util/secret-text.ts';
import type { VaultClient } from './client.ts';
import { isVaultError, VaultError } from './errors.ts';
import { mountPath } from './paths.ts';

export interface TokenLease {
  readonly token: Secret;
  /** 0: does not expire. */
  readonly seconds: number;
  /** Full lifetime in seconds, as far as Vault reports it; {@link seconds} are left. */
  readonly wholeSeconds: number;
  readonly renewable: boolean;
  /** Whether it may look itself up, as the policy `default` permits: if that is denied later, it was revoked. */
  readonly canLookUp: boolean;
}

const seconds = z.number().min(0);

const text = z.string().min(1);

/** 0: not limited. */
const uses = z.int().default(0);

/** A response without `auth` is not a login, even with status 200. */
const authShape = z.object({
  auth: z.object({
    client_token: text.transform((token) => new Secret(token)),
    lease_duration: seconds,
    renewable: z.boolean(),
    num_uses: uses,
  }),
});

/** A token that never expires has no `expire_time`. (An expiring one may have a `ttl` of 0 as well.) */
const lookupShape = z.object({
  data: z.object({
    ttl: seconds,
    creation_ttl: seconds.default(0),
    renewable: z.boolean().default(false),
    expire_time: z.string().nullable(),
    num_uses: uses,
  }),
});

export type AuthConfig = VaultConfig['auth'];

export interface Credentials {
  /** Identifies credentials, so that rejected ones are not tried again. */
  readonly fingerprint: string;
  /** Of a configured token, only looks it up again; else returns a new one. */
  readonly logIn: () => Promise<TokenLease>;
}

/** The returned function reads the files each time. It throws VaultError `no-credentials`. */
export function credentialsReader(auth: AuthConfig, client: VaultClient): () => Promise<Credentials> {
  return async () => {
    if (auth.method === 'token') {
      const token = await valueOrFile('token', auth.token, auth.tokenFile);
      return { fingerprint: fingerprintOf(token), logIn: () => lookUpSelf(client, token) };
    }
    if (auth.method === 'kubernetes') {
      const { mount, role, jwtFile } = auth;
      const jwt = await secretFile(jwtFile, 'token');
      return { fingerprint: fingerprintOf(jwt), logIn: () => logInTo(client, mount, { role, jwt }) };
    }
    const role_id = await valueOrFile('key', auth.roleId, auth.roleIdFile);
    const secret_id = await secretFile(auth.secretIdFile, 'key');
    const logIn = () => logInTo(client, auth.mount, { role_id, secret_id });
    return { fingerprint: fingerprintOf(role_id, secret_id), logIn };
  };
}

/** The configuration has exactly one of both. */
async function valueOrFile(form: SecretForm, value: Secret | string | undefined, file = ''): Promise<Secret> {
  if (value === undefined) return secretFile(file, form);
  const place = form === 'token' ? 'the configured token' : 'the configured roleId';
  const read = secretText(typeof value === 'string' ? value : reveal(value), form);
  if ('fault' in read) throw new VaultError('no-credentials', { note: `${place} ${read.fault}` });
  return new Secret(read.text);
}

async function secretFile(file: string, form: SecretForm): Promise<Secret> {
  try {
    return new Secret(await readSecret(file, form));
  } catch (error) {
    throw new VaultError('no-credentials', { note: error instanceof Error ? error.message : file });
  }
}

function fingerprintOf(...secrets: readonly Secret[]): string {
  return createHash('sha256')
    .update(JSON.stringify(secrets.map(reveal)))
    .digest('hex');
}

/**
 * `POST /auth/:mount/login`, the same for AppRole and Kubernetes. A token with limited uses is refused: it would end at
 * any request, and no response of Vault tells that from a missing permission.
 */
async function logInTo(client: VaultClient, mount: string, credentials: object): Promise<TokenLease> {
  const { auth } = await client.write(`auth/${mountPath(mount)}/login`, credentials, authShape);
  const { client_token: token, lease_duration: seconds, renewable, num_uses } = auth;
  if (num_uses !== 0) {
    await revokeSelf(client, token);
    throw new VaultError('limited-uses');
  }
  const canLookUp = await isValid(client, token).catch(() => false);
  return { token, seconds, wholeSeconds: seconds, renewable, canLookUp };
}

/** `POST /auth/token/renew-self`. */
export async function renewSelf(client: VaultClient, lease: TokenLease): Promise<TokenLease> {
  const { auth } = await client.write('auth/token/renew-self', {}, authShape, lease.token);
  const seconds = auth.lease_duration;
  return { ...lease, seconds, wholeSeconds: seconds, renewable: auth.renewable };
}

/** `POST /auth/token/revoke-self`: revokes the token and its leases. Never rejects. */
export async function revokeSelf(client: VaultClient, token: Secret): Promise<void> {
  await client.write('auth/token/revoke-self', {}, z.unknown(), token).catch(() => {
    // Without that permission it expires with its lease.
  });
}

/** `GET /auth/token/lookup-self`: the lease of a token that we did not obtain ourselves. */
async function lookUpSelf(client: VaultClient, token: Secret): Promise<TokenLease> {
  const { data } = await client.read('auth/token/lookup-self', lookupShape, token);
  if (data.num_uses !== 0) throw new VaultError('limited-uses');
  const seconds = data.expire_time === null ? 0 : Math.max(data.ttl, 1);
  // A renewable token is renewed within the time left, so its original lifetime does not matter.
  const wholeSeconds = data.renewable ? seconds : Math.max(data.creation_ttl, seconds);
  return { token, seconds, wholeSeconds, renewable: data.renewable, canLookUp: true };
}

/** Whether the token may look itself up. `false`: it was revoked, or lacks that permission. @throws VaultError otherwise */
export async function isValid(client: VaultClient, token: Secret): Promise<boolean> {
  const lookup = client.read('auth/token/lookup-self', z.unknown(), token);
  return lookup.then(
    () => true,
    (error: unknown) => {
      if (isVaultError(error, 'denied')) return false;
      throw error;
    },
  );
}
