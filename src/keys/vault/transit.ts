import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto';
import { promisify } from 'node:util';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { VaultConfig } from '../../config/schema.ts';
import type { MonotonicClock, SetTimer } from '../../util/clock.ts';
import { endsWithin } from '../../util/promises.ts';
import { keyNotUsable, signingUnavailable } from '../errors.ts';
import { type Parsed, usableRsa } from '../key.ts';
import type { SigningObserver, SignRemotely, TransitResult } from '../key-source.ts';
import type { TransitKey } from '../ring.ts';
import { type AuthenticatedClient, permissionsOf } from './client.ts';
import { isOfPathOnly, isVaultError, problemOf, VaultError } from './errors.ts';
import { mountPath } from './paths.ts';

/** A name as Vault permits it. */
const namePattern = /^[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,253}[A-Za-z0-9_])?$/;
/** The content of the field `transit_key`, as in `acme-payments:3`. */
const referencePattern = /^([^:]+):([1-9]\d{0,8})$/;

/** A key as Vault describes it, without anything secret. */
const infoShape = z.object({
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
});
type TransitInfo = z.output<typeof infoShape>;
const keyShape = z.object({ data: infoShape }).transform(({ data }) => data);
const signedShape = z.object({ data: z.object({ signature: z.string() }) });
const nothingShape = z.unknown();

export function isTransitName(text: string): boolean {
  return namePattern.test(text);
}

/** The key that the field `transit_key` of a secret names, by a name that Vault may not permit; `undefined` if it names none. */
export function transitKeyIn(reference: unknown): Pick<TransitKey, 'name' | 'keyVersion'> | undefined {
  const [, name, version] = referencePattern.exec(typeof reference === 'string' ? reference : '') ?? [];
  return name === undefined ? undefined : { name, keyVersion: Number(version) };
}

/** The name of a login's key unless another one is chosen: no two logins have the same. `a@b` becomes `a_40b`. */
export function transitNameOf(login: string): string {
  return login.replaceAll(/[^A-Za-z0-9.-]|^[.-]|[.-]$/g, (other) => `_${other.charCodeAt(0).toString(16)}`);
}

/** Names of keys whose public keys are remembered. */
const maxKeys = 10_000;

/**
 * Milliseconds that a signature waits for a Vault that failed before: long enough for one that is back, and not as long as
 * for one that hangs.
 */
const failingWait = 1_000;

const verifies = promisify(verify);

export interface TransitSignerOptions extends MonotonicClock {
  readonly setTimer?: SetTimer;
  readonly events: SigningObserver;
}

/**
 * Keys of Vault's Transit engine (Vault's API documentation, "Transit secrets engine (API)"). Vault gets the SHA-256 of a
 * base string, never the base string. Each method throws VaultError.
 */
export class TransitEngine {
  readonly #client: AuthenticatedClient;
  readonly #mounts: Readonly<Record<string, string>>;
  /**
   * By path, then by version: those that Vault signs with and a secret names. A version of a key never
   * changes, unless the key is replaced.
   */
  readonly #publicKeys = new LRUCache<string, Map<number, KeyObject>>({ max: maxKeys });

  constructor(client: AuthenticatedClient, { transit }: Pick<VaultConfig, 'transit'>) {
    this.#client = client;
    this.#mounts = transit?.mounts ?? {};
  }

  /**
   * The key that the field `transit_key` of a secret names. What keeps this key alone from being used is its problem.
   *
   * @throws VaultError if Vault is unavailable, or there is no token
   */
  async find(environment: string, reference: unknown): Promise<Parsed> {
    const named = transitKeyIn(reference);
    if (named === undefined || !isTransitName(named.name))
      return { problem: 'the field transit_key is not NAME:VERSION of a key in the Transit engine' };
    const mount = this.#mountOf(environment);
    if (mount === undefined)
      return {
        problem: `the field transit_key names a key in the Transit engine, but keys.vault.transit.mounts has none for ${environment}`,
      };
    const { name, keyVersion } = named;
    const path = `${mount}/keys/${name}`;
    try {
      const known = this.#publicKeys.get(path)?.get(keyVersion);
      const publicKey = known ?? publicKeyIn(await this.#client.read(path, keyShape), keyVersion);
      if ('problem' in publicKey) return { problem: `the Transit key ${path} ${publicKey.problem}` };
      const parsed = usableRsa({ kind: 'private_key', mount, name, keyVersion, publicKey }, publicKey);
      const versions = this.#publicKeys.get(path) ?? new Map<number, KeyObject>();
      if ('key' in parsed) this.#publicKeys.set(path, versions.set(keyVersion, publicKey));
      return parsed;
    } catch (error) {
      if (!isOfPathOnly(error)) throw error;
      return { problem: `the Transit key ${path} cannot be read: ${error.message}` };
    }
  }

  /**
   * A signature of RSA-SHA256 (docs/gateway-interface.md section 5.3), in base64, which the public key verifies.
   *
   * @param signal ends it
   * @throws VaultError also `wrong-signature`
   */
  async sign(key: TransitKey, baseString: string, signal?: AbortSignal): Promise<string> {
    const { mount, name, keyVersion, publicKey } = key;
    const request = {
      input: createHash('sha256').update(baseString).digest('base64'),
      prehashed: true,
      signature_algorithm: 'pkcs1v15',
      key_version: keyVersion,
    };
    try {
      const path = `${mount}/sign/${name}/sha2-256`;
      const { data } = await this.#client.post(path, request, signedShape, signal);
      // `vault:v3:...`: that it is of this version shows the public key.
      const [, text = ''] = /^[a-z]+:v\d+:([\w+/]+={0,2})$/.exec(data.signature) ?? [];
      const signature = Buffer.from(text, 'base64');
      // Written anew: the gateway may be stricter than Node, which also reads base64url, or text without padding.
      if (await verifies('sha256', Buffer.from(baseString), publicKey, signature))
        return signature.toString('base64');
      throw new VaultError('wrong-signature');
    } catch (error) {
      // The key or its version is gone, or is another one: the next read of the login finds out.
      if (isVaultError(error, 'wrong-signature', 'rejected'))
        this.#publicKeys.delete(`${mount}/keys/${name}`);
      throw error;
    }
  }

  /**
   * What an auditor would object to in a key, or in the rights of this token to it. Each text follows its name.
   *
   * @throws VaultError also `denied` if the token may not sign with the key
   */
  async objections({ mount, name }: TransitKey): Promise<string[]> {
    const path = `${mount}/keys/${name}`;
    const info = await this.#client.read(path, keyShape);
    const sign = `${mount}/sign/${name}/sha2-256`;
    const others = [
      ...['config', 'rotate', 'trim', 'import'].map((part) => `${path}/${part}`),
      ...['export/signing-key', 'backup'].map((part) => `${mount}/${part}/${name}`),
    ];
    const may = await permissionsOf(this.#client, [sign, path, ...others]);
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
  async generate(environment: string, name: string, bits: number): Promise<string> {
    const mount = this.#mountOf(environment);
    if (mount === undefined)
      throw new VaultError('no-route', { note: `keys.vault.transit.mounts has none for ${environment}` });
    const path = `${mount}/keys/${name}`;
    const existing = await this.#client.read(path, keyShape).catch((error: unknown) => {
      if (!isOfPathOnly(error) || error.kind !== 'not-found') throw error;
    });
    if (existing === undefined) {
      await this.#client.write(path, { type: `rsa-${bits}`, exportable: false }, nothingShape);
    } else {
      const problem = typeProblemOf(existing) ?? waysOut(existing)[0];
      if (problem !== undefined) throw new VaultError('unfit-key', { note: `it ${problem}` });
      await this.#client.write(`${path}/rotate`, {}, nothingShape);
    }
    const { latest_version } = await this.#client.read(path, keyShape);
    return `${name}:${latest_version}`;
  }

  #mountOf(environment: string): string | undefined {
    const mount = Object.hasOwn(this.#mounts, environment) ? this.#mounts[environment] : undefined;
    return mount === undefined ? undefined : mountPath(mount);
  }
}

/** Signs with keys in the engine, and says how each signature went. */
export function createTransitSigner(engine: TransitEngine, options: TransitSignerOptions): SignRemotely {
  const { monotonic, events } = options;
  /** Whether Vault did not respond to the last signature, or with an internal error. */
  let isFailing = false;
  return async (login, key, baseString) => {
    const startedAt = monotonic();
    const report = (result: TransitResult, problem?: string): void =>
      events.transitSigned(login.environment, result, (monotonic() - startedAt) / 1000, problem);
    const late = new AbortController();
    const signing = engine.sign(key, baseString, late.signal);
    try {
      if (isFailing && !(await endsWithin(failingWait, signing, options.setTimer))) {
        // Its slot is free now, so Vault must have no request for it.
        late.abort();
        throw new VaultError('timeout');
      }
      const signature = await signing;
      isFailing = false;
      report('ok');
      return signature;
    } catch (error) {
      const result = transitResultOf(error);
      isFailing = result === 'unavailable';
      report(result, problemOf(error));
      const isOfKey = result === 'rejected' || result === 'invalid';
      const problem = `Vault does not sign with the Transit key ${key.name}, version ${key.keyVersion}`;
      throw isOfKey ? keyNotUsable(login, problem, error) : signingUnavailable(login, error);
    }
  };
}

function transitResultOf(error: unknown): TransitResult {
  if (!isOfPathOnly(error)) return 'unavailable';
  if (isVaultError(error, 'wrong-signature')) return 'invalid';
  if (isVaultError(error, 'rejected', 'not-found')) return 'rejected';
  return isVaultError(error, 'denied', 'no-route') ? 'denied' : 'unavailable';
}

/** How its private key can leave Vault. Each text follows the key's name. */
function waysOut({ exportable, allow_plaintext_backup: backup }: TransitInfo): string[] {
  return [
    ...(exportable ? ['is exportable: its private key can leave Vault'] : []),
    ...(backup ? ['has allow_plaintext_backup: a backup has its private key'] : []),
  ];
}

function typeProblemOf({ type }: TransitInfo): string | undefined {
  return type.startsWith('rsa-') ? undefined : `is of type ${type}; an RSA key is needed`;
}

/** Of a version, or why Vault does not sign with it, as a text that follows the key's name. */
function publicKeyIn(info: TransitInfo, version: number): KeyObject | { readonly problem: string } {
  const typeProblem = typeProblemOf(info);
  if (typeProblem !== undefined) return { problem: typeProblem };
  if (info.soft_deleted) return { problem: 'is marked as deleted (soft-delete)' };
  const minimum = info.min_encryption_version;
  if (version < minimum)
    return {
      problem: `no longer signs with version ${version}: its min_encryption_version is ${minimum}`,
    };
  const entry = info.keys[version];
  try {
    if (typeof entry === 'object') return createPublicKey(entry.public_key ?? '');
  } catch {
    // As if there were none.
  }
  return { problem: `has no version ${version}; its latest is ${info.latest_version}` };
}
