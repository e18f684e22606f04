import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { VaultConfig } from '../../config/schema.ts';
import { reveal, Secret } from '../../secret.ts';
import { logIn, lookUpSelf, type TokenLease, unwrapSecretId } from './auth-api.ts';
import type { VaultClient } from './client.ts';
import { isVaultError, VaultError } from './errors.ts';

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
  if (auth.method === 'token') return tokenMethod(auth, client);
  if (auth.method === 'approle') return appRoleMethod(auth, client);
  return kubernetesMethod(auth, client);
}

function tokenMethod(auth: AuthOf<'token'>, client: VaultClient): AuthMethod {
  return {
    name: 'token',
    givesNewTokens: false,
    async credentials() {
      const token = await valueOrFile(auth.token, auth.tokenFile);
      return { fingerprint: fingerprintOf(token), logIn: () => lookUpSelf(client, token) };
    },
  };
}

function appRoleMethod(auth: AuthOf<'approle'>, client: VaultClient): AuthMethod {
  const unwrap = unwrapOnce(client);
  return {
    name: 'approle',
    givesNewTokens: true,
    async credentials() {
      const roleId = await valueOrFile(auth.roleId, auth.roleIdFile);
      const wrapped = auth.wrappedSecretIdFile !== undefined;
      const file = auth.wrappedSecretIdFile ?? auth.secretIdFile;
      // A role with `bind_secret_id: false` has none.
      const secret = file === undefined ? undefined : await secretFile(file);
      return {
        fingerprint: fingerprintOf(roleId, secret),
        logIn: async () => {
          const secretId = wrapped && secret !== undefined ? await unwrap(secret) : secret;
          return logIn(client, auth.mount, { role_id: roleId, secret_id: secretId });
        },
      };
    },
  };
}

function kubernetesMethod(auth: AuthOf<'kubernetes'>, client: VaultClient): AuthMethod {
  return {
    name: 'kubernetes',
    givesNewTokens: true,
    async credentials() {
      const jwt = await secretFile(auth.jwtFile);
      return {
        fingerprint: fingerprintOf(jwt),
        logIn: () => logIn(client, auth.mount, { role: auth.role, jwt }),
      };
    },
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
