import type { VaultConfig } from '../../../src/config/schema.ts';
import {
  type KeyReading,
  type KeySource,
  type KeySourceObserver,
  type NoKeys,
  ringIn,
  type SigningObserver,
} from '../../../src/keys/key-source.ts';
import type { LoginRef } from '../../../src/keys/login-ref.ts';
import type { KeyRing, TransitKey } from '../../../src/keys/ring.ts';
import { VaultError } from '../../../src/keys/vault/errors.ts';
import { connectVault, createVaultSource, type VaultOptions } from '../../../src/keys/vault/source.ts';
import { reveal, Secret } from '../../../src/secret.ts';
import type { ConfigInput } from '../config.ts';
import { Folder } from '../folder.ts';
import { VaultAdmin } from './admin.ts';
import { ManualClock } from './clock.ts';
import { type StubOptions, StubVault } from './server.ts';
import { rootToken } from './state.ts';

const rootAuth: VaultConfig['auth'] = { method: 'token', token: new Secret(rootToken) };
export const approleMount = 'approle';
/** Role and policy that {@link VaultTestEnvironment} prepares. */
export const roleName = 'countersign';
export const day = 86_400_000;
export const acme = { environment: 'sandbox', login: 'acme' };

type KeysInput = Extract<ConfigInput['keys'], { source: 'vault' }>;
type VaultInput = KeysInput['vault'];

/** Records events. */
export class RecordingObserver implements KeySourceObserver, SigningObserver {
  readonly problems: string[] = [];
  readonly expiries: (number | undefined)[] = [];
  /** Seconds, one for each of {@link expiries}. */
  readonly leases: (number | undefined)[] = [];
  /** Results of signatures in Vault. */
  readonly signed: string[] = [];
  sourceUp: boolean | undefined;

  keyProblem(problem: string): void {
    this.problems.push(problem);
  }

  loginFailed(problem: string): void {
    this.problems.push(problem);
    this.sourceUp = false;
  }

  tokenExpiryChanged(at: number | undefined, leaseSeconds?: number): void {
    this.expiries.push(at);
    this.leases.push(leaseSeconds);
  }

  keyLookup(): void {}
  keyFetched(): void {}
  keyRingUpdated(): void {}
  loginsNotFound(): void {}
  cachedKeysExpire(): void {}
  loginsDenied(): void {}
  transitSigned(_environment: string, result: string, _seconds: number, problem?: string): void {
    this.signed.push(problem === undefined ? result : `${result}: ${problem}`);
  }

  keySourceUp(up: boolean): void {
    this.sourceUp = up;
  }
}

/** Kind of the VaultError that the work failed with, directly or as the cause of a ProxyError. */
export async function problemOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => 'none',
    (thrown: unknown) => thrown,
  );
  if (error instanceof VaultError) return error.kind;
  return error instanceof Error && error.cause instanceof VaultError ? error.cause.kind : String(error);
}

/** `keys` of the configuration file: a Vault with the root token unless `vault` has another login. */
export function vaultKeys(
  address: string,
  vault: Partial<VaultInput> = {},
  more: Partial<KeysInput> = {},
): KeysInput {
  const auth = { method: 'token', token: rootToken } as const;
  return { source: 'vault', vault: { address, auth, ...vault }, ...more };
}

export function vaultConfig(address: string, more: Partial<VaultConfig> = {}): VaultConfig {
  const path = 'gateway/{environment}/{login}';
  const minVersion = 'TLSv1.2';
  return { address, mount: 'secret', path, timeout: 5000, minVersion, auth: rootAuth, ...more };
}

/** A source with a connection of its own. */
export function vaultSource(config: VaultConfig, options: VaultOptions): KeySource {
  return createVaultSource(connectVault(config, options), day, options);
}

/** A stub Vault on a manual clock, with an AppRole `countersign` that may read `gateway/*`. */
export class VaultTestEnvironment {
  readonly clock = new ManualClock();
  readonly observed = new RecordingObserver();
  readonly folder = new Folder();
  readonly vault: StubVault;
  readonly #closers: (() => unknown)[] = [];
  admin = new VaultAdmin('', '');
  roleId = '';

  constructor(options: StubOptions = {}) {
    this.vault = new StubVault({ clock: this.clock.now, ...options });
  }

  /** @param admin of another server in place of the stub, which tests may have opened before */
  async open(admin?: VaultAdmin): Promise<this> {
    this.admin = admin ?? new VaultAdmin(await this.vault.listen(), rootToken);
    await this.admin.send('POST', `sys/auth/${approleMount}`, { type: 'approle' });
    await this.admin.policy(roleName);
    await this.changeRole();
    this.vault.seen.length = 0;
    return this;
  }

  async changeRole(settings: object = {}): Promise<void> {
    const role = { token_policies: [roleName], token_ttl: 3600, ...settings };
    this.roleId = await this.admin.role(approleMount, roleName, role);
  }

  get options(): VaultOptions {
    const { now, setTimer } = this.clock;
    return { clock: now, monotonic: now, random: () => 0.5, events: this.observed, setTimer };
  }

  config(more: Partial<VaultConfig> = {}): VaultConfig {
    return vaultConfig(this.admin.address, more);
  }

  /** A source of keys that this stub holds; stopped with this environment. */
  source(more: Partial<VaultConfig> = {}, options: Partial<VaultOptions> = {}): KeySource {
    return this.closeAtEnd(vaultSource(this.config(more), { ...this.options, ...options }));
  }

  /** An AppRole login with a secret ID in a file; a new one unless given. */
  async appRole(secretId?: string): Promise<VaultConfig['auth']> {
    const id = secretId ?? (await this.admin.secretId(approleMount, roleName));
    const secretIdFile = this.folder.file('secret-id', `${id}\n`);
    return { method: 'approle', mount: approleMount, roleId: this.roleId, secretIdFile };
  }

  /** Stops or closes the part with this environment. */
  closeAtEnd<T extends { stop(): void } | { close(): unknown }>(part: T): T {
    this.#closers.push(() => ('stop' in part ? part.stop() : part.close()));
    return part;
  }

  async close(): Promise<void> {
    await Promise.all(this.#closers.map((close) => close()));
    this.folder.remove();
    await this.vault.close();
  }
}

/** The control key of each entry, newest first, as `version:key`. */
export function controlKeys(reading: KeyReading | NoKeys | KeyRing | undefined) {
  if (typeof reading === 'string') return reading;
  const ring = reading !== undefined && 'ring' in reading ? reading.ring : reading;
  return ring?.map((entry) =>
    'key' in entry && entry.key.kind === 'control_key'
      ? `${entry.version}:${reveal(entry.key.secret)}`
      : `${entry.version}:-`,
  );
}

/** The newest RSA key of a login, which is in Vault's Transit engine, or what keeps it from being used. */
export async function newestTransitKey(
  source: KeySource,
  login: LoginRef = acme,
): Promise<TransitKey | string> {
  const newest = ringIn(await source.read(login))?.find(({ kind }) => kind === 'private_key');
  if (newest === undefined || 'problem' in newest) return newest?.problem ?? 'none';
  if ('publicKey' in newest.key) return newest.key;
  throw new TypeError('it is not in Vault');
}
