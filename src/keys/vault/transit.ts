import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto';
import { promisify } from 'node:util';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { VaultConfig } from '../../config/schema.ts';
import type { Secret } from '../../secret.ts';
import { type Parsed, usableRsa } from '../key.ts';
import type { TransitKey } from '../key-source.ts';
import { mountPath, permissionsOf, type VaultClient } from './client.ts';
import { isVaultError, VaultError, vaultErrors } from './errors.ts';

/** A name as Vault permits it. */
const namePattern = /^[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,253}[A-Za-z0-9_])?$/;
/** The content of the field `transit_key`, as in `acme-payments:3`. */
const referencePattern = /^([^:]+):([1-9]\d{0,8})$/;

const keyShape = z.object({
  data: z.object({
    type: z.string(),
    latest_version: z.int().positive(),
    min_encryption_version: z.int().min(0),
    exportable: z.boolean(),
    /** Of OpenBao. */
    soft_deleted: z.boolean().optional(),
    allow_plaintext_backup: z.boolean(),
    /** Seconds; of older servers, also as text. */
    auto_rotate_period: z.union([z.number(), z.string()]).optional(),
    // Of a symmetric key, only the time of its creation.
    keys: z.record(z.string(), z.union([z.number(), z.object({ public_key: z.string().optional() })])),
  }),
});
const signedShape = z.object({ data: z.object({ signature: z.string() }) });
const nothingShape = z.unknown();

/** A key as Vault describes it, without anything secret. */
type TransitInfo = z.output<typeof keyShape>['data'];

export function isTransitName(text: string): boolean {
  return namePattern.test(text);
}

/** Of the key that the field `transit_key` of a secret names; `undefined` if it names none. */
export function transitNameIn(reference: unknown): string | undefined {
  return referencePattern.exec(typeof reference === 'string' ? reference : '')?.[1];
}

/** The name of a login's key unless another one is chosen: no two logins have the same. `a@b` becomes `a_40b`. */
export function transitNameOf(login: string): string {
  return login.replaceAll(/[^A-Za-z0-9.-]|^[.-]|[.-]$/g, (other) => `_${other.charCodeAt(0).toString(16)}`);
}

/** Names of keys whose public keys are remembered. */
const maxKeys = 10_000;

const verifies = promisify(verify);

/**
 * Keys of Vault's Transit engine (Vault's API documentation, "Transit secrets engine (API)"). Vault gets the SHA-256 of a
 * base string, never the base string. Each method throws VaultError.
 */
export class TransitEngine {
  readonly #client: VaultClient;
  readonly #mounts: Readonly<Record<string, string>>;
  /**
   * By mount and name, then by version: those that Vault signs with and a secret names. A version of a key never
   * changes, unless the key is replaced.
   */
  readonly #publicKeys = new LRUCache<string, Map<number, KeyObject>>({ max: maxKeys });

  constructor(client: VaultClient, { transit }: Pick<VaultConfig, 'transit'>) {
    this.#client = client;
    this.#mounts = transit?.mounts ?? {};
  }

  /**
   * The key that the field `transit_key` of a secret names. What keeps this key alone from being used is its problem.
   *
   * @param isValid whether the token is known to be valid: Vault also denies one that was revoked or is used up
   * @throws VaultError if Vault is unavailable, or denies a token that may not be valid
   */
  async find(token: Secret, environment: string, reference: unknown, isValid: boolean): Promise<Parsed> {
    const [, name, version] = referencePattern.exec(typeof reference === 'string' ? reference : '') ?? [];
    if (name === undefined || !isTransitName(name))
      return { problem: 'the field transit_key is not NAME:VERSION of a key in the Transit engine' };
    const mount = this.#mountOf(environment);
    if (mount === undefined)
      return {
        problem: `the field transit_key names a key in the Transit engine, but keys.vault.transit.mounts has none for ${environment}`,
      };
    const keyVersion = Number(version);
    const known = this.#publicKeys.get(`${mount}/${name}`)?.get(keyVersion);
    if (known !== undefined) return usable({ mount, name, keyVersion, publicKey: known });
    try {
      return this.#parse({ mount, name, keyVersion }, await this.#read(token, mount, name));
    } catch (error) {
      if (!concernsKeyOnly(error) || (error.kind === 'denied' && !isValid)) throw error;
      return { problem: `the Transit key ${mount}/keys/${name} cannot be read: ${error.message}` };
    }
  }

  /**
   * A signature of RSA-SHA256 (docs/gateway-interface.md section 5.3), in base64, which the public key verifies.
   *
   * @throws VaultError also `wrong-signature`
   */
  async sign(token: Secret, key: TransitKey, baseString: string): Promise<string> {
    const { mount, name, keyVersion, publicKey } = key;
    const request = {
      input: createHash('sha256').update(baseString).digest('base64'),
      prehashed: true,
      signature_algorithm: 'pkcs1v15',
      key_version: keyVersion,
    };
    try {
      const path = `${mount}/sign/${name}/sha2-256`;
      const { data } = await this.#client.post(path, request, signedShape, token);
      // `vault:v3:...`: that it is of this version shows the public key.
      const [, text = ''] = /^[a-z]+:v\d+:([\w+/]+={0,2})$/.exec(data.signature) ?? [];
      const signature = Buffer.from(text, 'base64');
      // Written anew: the gateway may be stricter than Node, which also reads base64url, or text without padding.
      if (await verifies('sha256', Buffer.from(baseString), publicKey, signature))
        return signature.toString('base64');
      throw new VaultError('wrong-signature');
    } catch (error) {
      // The key or its version is gone, or is another one: the next read of the login finds out.
      if (isVaultError(error, 'wrong-signature', 'rejected')) this.#publicKeys.delete(`${mount}/${name}`);
      throw error;
    }
  }

  /**
   * What an auditor would object to in a key, or in the rights of this token to it. Each text follows its name.
   *
   * @throws VaultError also `denied` if the token may not sign with the key
   */
  async objections(token: Secret, { mount, name }: TransitKey): Promise<string[]> {
    const info = await this.#read(token, mount, name);
    const path = `${mount}/keys/${name}`;
    const sign = `${mount}/sign/${name}/sha2-256`;
    const others = [
      ...['config', 'rotate', 'trim', 'import'].map((part) => `${path}/${part}`),
      ...['export/signing-key', 'backup'].map((part) => `${mount}/${part}/${name}`),
    ];
    const may = await permissionsOf(this.#client, token, [sign, path, ...others]);
    if (!may(sign, 'update')) throw new VaultError('denied', { note: `update on ${sign}` });
    const excess = [
      ...(may(path, 'create', 'update', 'delete', 'sudo') ? [path] : []),
      ...others.filter((at) => may(at, 'create', 'read', 'update', 'delete', 'sudo')),
    ];
    return [
      ...waysOut(info),
      ...(!/^0s?$/.test(String(info.auto_rotate_period ?? 0))
        ? ['has auto_rotate_period: Vault makes versions that no secret names and the gateway does not know']
        : []),
      ...(excess.length > 0 ? [`may be used for more than signing: ${excess.join(', ')}`] : []),
    ];
  }

  /**
   * Makes a key that cannot be exported, or a new version of it if it exists.
   *
   * @param bits 2048, 3072 or 4096
   * @returns the reference for the field `transit_key`
   * @throws VaultError also `unfit-key` for one of that name that can leave Vault, or is not RSA
   */
  async generate(token: Secret, environment: string, name: string, bits: number): Promise<string> {
    const mount = this.#mountOf(environment);
    if (mount === undefined)
      throw new VaultError('no-route', { note: `keys.vault.transit.mounts has none for ${environment}` });
    const existing = await this.#read(token, mount, name).catch((error: unknown) => {
      if (!isVaultError(error, 'not-found')) throw error;
    });
    const path = `${mount}/keys/${name}`;
    if (existing === undefined) {
      await this.#client.write(path, { type: `rsa-${bits}`, exportable: false }, nothingShape, token);
    } else {
      const isRsa = existing.type.startsWith('rsa-');
      const [problem] = isRsa ? waysOut(existing) : [`is of type ${existing.type}; an RSA key is needed`];
      if (problem !== undefined) throw new VaultError('unfit-key', { note: `it ${problem}` });
      await this.#client.write(`${path}/rotate`, {}, nothingShape, token);
    }
    const { latest_version } = await this.#read(token, mount, name);
    return `${name}:${latest_version}`;
  }

  #mountOf(environment: string): string | undefined {
    const mount = Object.hasOwn(this.#mounts, environment) ? this.#mounts[environment] : undefined;
    return mount === undefined ? undefined : mountPath(mount);
  }

  async #read(token: Secret, mount: string, name: string): Promise<TransitInfo> {
    const { data } = await this.#client.read(`${mount}/keys/${name}`, keyShape, token);
    return data;
  }

  #parse(key: Omit<TransitKey, 'kind' | 'publicKey'>, info: TransitInfo): Parsed {
    const { mount, name, keyVersion } = key;
    const what = `the Transit key ${mount}/keys/${name}`;
    if (!info.type.startsWith('rsa-'))
      return { problem: `${what} is of type ${info.type}; an RSA key is needed` };
    if (info.soft_deleted) return { problem: `${what} is marked as deleted (soft-delete)` };
    if (keyVersion < info.min_encryption_version)
      return {
        problem: `${what} no longer signs with version ${keyVersion}: its min_encryption_version is ${info.min_encryption_version}`,
      };
    const entry = info.keys[keyVersion];
    const publicKey = typeof entry === 'object' ? parsePublicKey(entry.public_key) : undefined;
    if (publicKey === undefined)
      return { problem: `${what} has no version ${keyVersion}; its latest is ${info.latest_version}` };
    const parsed = usable({ ...key, publicKey });
    if ('key' in parsed) this.#remember(key, publicKey);
    return parsed;
  }

  #remember({ mount, name, keyVersion }: Omit<TransitKey, 'kind' | 'publicKey'>, publicKey: KeyObject): void {
    const versions = this.#publicKeys.get(`${mount}/${name}`) ?? new Map<number, KeyObject>();
    this.#publicKeys.set(`${mount}/${name}`, versions.set(keyVersion, publicKey));
  }
}

/** What Vault responded about one key says nothing about the others. */
function concernsKeyOnly(error: unknown): error is VaultError {
  return error instanceof VaultError && !vaultErrors[error.kind].outage && error.kind !== 'backing-off';
}

/** How its private key can leave Vault. Each text follows the key's name. */
function waysOut({ exportable, allow_plaintext_backup: backup }: TransitInfo): string[] {
  return [
    ...(exportable ? ['is exportable: its private key can leave Vault'] : []),
    ...(backup ? ['has allow_plaintext_backup: a backup has its private key'] : []),
  ];
}

function usable(key: Omit<TransitKey, 'kind'>): Parsed {
  return usableRsa({ kind: 'private_key', ...key }, key.publicKey);
}

function parsePublicKey(pem = ''): KeyObject | undefined {
  try {
    return createPublicKey(pem);
  } catch {
    return undefined;
  }
}
