import type { KeyKind, SigningKey } from '../oauth1/methods.ts';
import type { TlsMaterial } from '../tls/material.ts';

/** Where a key lives: the same login in two environments has two different secrets (promise 7). */
export interface LoginRef {
  readonly environment: string;
  readonly login: string;
}

interface RingEntry {
  readonly kind: KeyKind;
  /** The source's version number of the secret (Vault KV v2), or whole seconds of the file's change. */
  readonly version: number;
  readonly createdAt?: Date;
  /** When a newer version took its place; absent for the current version. */
  readonly supersededAt?: Date;
}

/** A parsed key, ready to sign. */
export interface UsableKey extends RingEntry {
  readonly key: SigningKey;
  /** SHA-256 over the public key's SPKI DER, hex; RSA keys only. */
  readonly fingerprint?: string;
}

/** A key that is there but cannot be used: why, without any of its content. */
export interface UnusableKey extends RingEntry {
  readonly problem: string;
}

/** All keys of one login, newest version first; a version holds a control key, a private key or both. */
export type KeyRing = readonly (UsableKey | UnusableKey)[];

/**
 * The port to wherever keys are kept.
 *
 * `read` gives the ring, or `undefined` where the source says for certain that the login has no secret
 * (not found, deleted, destroyed). Anything else throws `Refusal('key-source-unavailable')`, whose cause
 * carries no request, no token and no key.
 */
export interface KeySource {
  read(address: LoginRef): Promise<KeyRing | undefined>;
  /** Begins what has to run in the background, such as logging in. Never throws. */
  start(): void;
  /** Whether the source has answered once since {@link start}. */
  ready(): boolean;
  /** Other certificates for the connections to come, of a source that is reached over TLS. */
  useTls?(material: TlsMaterial): void;
  /** Ends what {@link start} began, in a bounded time; the process can then exit. Never rejects. */
  stop(): void | Promise<void>;
}

/**
 * Why a ring is not in use any more: the key source has no keys for the login (`deleted`), no request used them
 * (`unused`), the source could not be read for too long (`expired`), the cache is full (`evicted`), or the keys are
 * read from another place since a reload (`replaced`).
 */
export type RingRemoval = 'deleted' | 'unused' | 'expired' | 'evicted' | 'replaced';

/** How a ring came to be had; the label of `key_requests_total`. */
export type CacheResult = 'fresh' | 'stale' | 'fetched' | 'missing' | 'failed';

/** What keys/ tells whoever keeps the metrics and the log. */
export interface KeySourceObserver {
  keyLookup(environment: string, result: CacheResult): void;
  /** Duration in seconds of one read of the source, successful or not. */
  keyFetched(source: string, seconds: number): void;
  /** The ring that is in use from now on; `undefined`: none is, for the reason given. */
  keyRingUpdated(address: LoginRef, ring: KeyRing | undefined, removal?: RingRemoval): void;
  /** Whether the source could be used when it was last asked; where not, `cause` says why, without a secret. */
  keySourceUp(up: boolean, cause?: string): void;
  /** Logging in to the source failed: it cannot be used until that succeeds. `problem` holds no secret. */
  loginFailed(problem: string): void;
  /**
   * Seconds since 1970 at which the source's own credential runs out; `undefined`: never or unknown.
   *
   * @param leaseSeconds its length, from which it counts down to 0 at `at`
   */
  tokenExpiryChanged(at: number | undefined, leaseSeconds?: number): void;
  /** Something a person should know; `problem` holds no secret. */
  keyProblem(problem: string, about?: Partial<LoginRef>): void;
}
