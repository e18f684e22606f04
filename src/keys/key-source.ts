import type { TlsMaterial } from '../net/tls-material.ts';
import type { LoginRef } from './login-ref.ts';
import type { KeyRing, TransitKey, UsableKey } from './ring.ts';

/** The result of a read. */
export interface KeyReading {
  readonly ring: KeyRing;
  /** Keys that were known and are still needed, which the source has no more without having deleted them. */
  readonly gone: KeyRing;
}

/**
 * Why there are no keys: they were removed on purpose (`deleted`), or the source does not know the login (`not-found`),
 * which may also be a mistake, such as another path or a store that was restored.
 */
export type NoKeys = 'deleted' | 'not-found';

/** The ring of a reading; `undefined` if there are no keys. */
export function ringIn(reading: KeyReading | NoKeys): KeyRing | undefined {
  return typeof reading === 'string' ? undefined : reading.ring;
}

/**
 * Makes a signature of RSA-SHA256, in base64, that the public key verifies.
 *
 * @throws ProxyError `signing-unavailable`, `key-unusable`
 */
export type SignRemotely = (login: LoginRef, key: TransitKey, baseString: string) => Promise<string>;

/**
 * Result of a signature in Vault: a label of `transit_signature_duration_seconds`. `rejected`: Vault has no such key, or
 * does not sign with its version. `invalid`: the public key does not verify the signature.
 */
export const transitResults = ['ok', 'unavailable', 'denied', 'rejected', 'invalid'] as const;
export type TransitResult = (typeof transitResults)[number];

/**
 * The store that keys are read from: Vault or a directory.
 *
 * A failed read throws SourceUnavailable, whose cause contains no request, token or key.
 */
export interface KeySource {
  /**
   * @param known the ring as read before: keys in it may still be needed although newer ones replaced them. Without one,
   *   a kind of key that the newest versions lack is looked for in older ones too
   * @param accepted those of them that the gateway accepted last
   */
  read(login: LoginRef, known?: KeyRing, accepted?: readonly UsableKey[]): Promise<KeyReading | NoKeys>;
  /**
   * Signs a base string with a key that does not leave the source; see {@link SignRemotely}. Absent where there are no
   * such keys.
   */
  sign?: SignRemotely;
  /** Starts background work, such as authenticating to Vault. Never throws. */
  start(): void;
  /** @throws Error why nothing can be read; its message contains no secrets */
  check(): Promise<void>;
  /** Whether the source has been reached at least once since {@link start}. */
  ready(): boolean;
  /** Replaces the certificates for new connections, if the source is reached over TLS. */
  useTls?(material: TlsMaterial): void;
  /** Stops background work in bounded time, so that the process can exit. Never rejects. */
  stop(): void | Promise<void>;
}

/**
 * Why a key ring was removed: the key source has no keys for the login (`deleted`), no request used them (`unused`),
 * the source was unavailable for too long (`expired`), the cache is full (`evicted`), or a reload changed where keys
 * are read from (`replaced`).
 */
export type RingRemoval = 'deleted' | 'unused' | 'expired' | 'evicted' | 'replaced';

/** A key that the newest version of a login's secret no longer has, and the last version that had it. */
export type LostKey = Pick<UsableKey, 'kind' | 'version'>;

/** Result of a cache lookup; the label of `key_cache_lookups_total`. */
export const cacheResults = ['fresh', 'stale', 'fetched', 'missing', 'failed'] as const;
export type CacheResult = (typeof cacheResults)[number];

export interface SigningObserver {
  /**
   * A signature in Vault, successful or not. Duration in seconds.
   *
   * @param problem why it failed, without secrets
   */
  transitSigned(environment: string, result: TransitResult, seconds: number, problem?: string): void;
}

/** Events of this folder, for metrics and the log. */
export interface KeySourceObserver {
  keyLookup(environment: string, result: CacheResult): void;
  /** Duration in seconds of one read of the source, successful or not. */
  keyFetched(source: string, seconds: number): void;
  /**
   * The key ring in use changed; `undefined`: it was removed, for the reason in `removal`.
   *
   * @param lost keys that the source had until now
   */
  keyRingUpdated(
    login: LoginRef,
    ring: KeyRing | undefined,
    removal?: RingRemoval,
    lost?: readonly LostKey[],
  ): void;
  /**
   * The number of logins changed whose cached keys are used although the source does not know the login; see
   * {@link NoKeys}.
   *
   * @param login the one that was added
   * @param one of them, as `ENVIRONMENT/LOGIN`
   */
  loginsNotFound(count: number, login?: LoginRef, one?: string): void;
  /** Whether the source responded to the last request; if not, `cause` says why, without secrets. */
  keySourceUp(up: boolean, cause?: string): void;
  /**
   * The source responds, and denies reading this many logins.
   *
   * @param cause of the latest denial, without secrets
   * @param one of them, as `ENVIRONMENT/LOGIN`
   */
  loginsDenied(logins: number, cause: string, one?: string): void;
  /** Seconds until the first cached keys that cannot be read again run out; `undefined`: all can be read. */
  cachedKeysExpire(seconds: number | undefined): void;
  /** Authenticating to the source failed; it is unavailable until that succeeds. `problem` contains no secrets. */
  loginFailed(problem: string): void;
  /**
   * @param at when the Vault token expires, in seconds since 1970; `undefined`: never, or unknown
   * @param leaseSeconds full length of the token's lease
   */
  tokenExpiryChanged(at: number | undefined, leaseSeconds?: number): void;
  /** A problem that an operator should know about; `problem` contains no secrets. */
  keyProblem(problem: string, about?: Partial<LoginRef>): void;
}

const ignore = (): void => {};

/** For commands, which have no metrics, and for a source that was replaced. */
export const silentObserver: KeySourceObserver & SigningObserver = {
  keyLookup: ignore,
  keyFetched: ignore,
  keyRingUpdated: ignore,
  loginsNotFound: ignore,
  keySourceUp: ignore,
  loginsDenied: ignore,
  cachedKeysExpire: ignore,
  tokenExpiryChanged: ignore,
  transitSigned: ignore,
  loginFailed: ignore,
  keyProblem: ignore,
};
