import type { KeyObject } from 'node:crypto';
import { ProxyError } from '../errors.ts';
import type { KeyKind, SigningKey } from '../oauth1/methods.ts';
import { sameSecret } from '../secret.ts';
import type { LoginRef } from './login-ref.ts';

interface RingEntry {
  readonly kind: KeyKind;
  /** Version number of the secret (Vault KV v2), or the file's modification time in whole seconds. */
  readonly version: number;
  readonly createdAt?: Date;
  /**
   * When a newer version replaced it: one with a usable key of this kind, or one that was deleted since. Absent for the
   * current version, and for one whose key no newer version replaces.
   */
  readonly supersededAt?: Date;
  /** When it was last read, if the source has it no more without having deleted it; monotonic, milliseconds. */
  readonly goneSince?: number;
}

/**
 * An RSA private key in Vault's Transit engine, which signs with it and does not hand it out. The field `transit_key` of
 * the login's secret names it.
 */
export interface TransitKey {
  readonly kind: 'private_key';
  readonly publicKey: KeyObject;
  /** Path of the engine. */
  readonly mount: string;
  readonly name: string;
  /** Of the key in the engine, which is another number than that of the secret. */
  readonly keyVersion: number;
}

/** A parsed key, ready to sign, or to be signed with. */
export interface UsableKey extends RingEntry {
  readonly key: SigningKey | TransitKey;
  /**
   * SHA-256 over the public key's SPKI DER, hex. Of a control key, 4 hex digits that say next to nothing about it
   * (docs/security-model.md): equal ones do not mean equal keys.
   */
  readonly fingerprint?: string;
}

/** A key that exists but cannot be used. `problem` says why, without any of its content. */
export interface UnusableKey extends RingEntry {
  readonly problem: string;
}

/** The distinct usable keys of one login and kind, newest first: at most {@link maxKeys}. */
export type UsableKeys = readonly [UsableKey, ...UsableKey[]];

/** Different keys of one kind: the newest, the one that the gateway accepts, and one between them. */
export const maxKeys = 3;

/** All keys of one login, newest version first; a version holds a control key, a private key or both. */
export type KeyRing = readonly (UsableKey | UnusableKey)[];

/** The source confirmed that the login has no key of any kind. May name the login: the caller is authorized to use it. */
export class KeysMissing extends ProxyError {
  constructor({ environment, login }: LoginRef) {
    super(
      'key-missing',
      `Login "${login}" has no keys in environment "${environment}". Check the spelling, or ask the platform team to add keys for this environment.`,
    );
  }
}

/**
 * The distinct keys of one kind that may be used now, newest first: the newest, those superseded within the grace
 * period, and the one that the gateway accepted last. Unusable keys are skipped if there is a usable one.
 *
 * A new version of the secret may change only one kind of key, so equal keys of several versions count once,
 * with their newest version.
 *
 * @param now milliseconds since 1970
 * @param rotationGracePeriod milliseconds
 * @param accepted the one that the gateway accepted last
 * @throws ProxyError `key-missing`, `key-unusable`; the detail names login and version, never key material.
 */
export function usableKeys(
  login: LoginRef,
  ring: KeyRing,
  kind: KeyKind,
  now: number,
  rotationGracePeriod: number,
  accepted?: UsableKey,
): UsableKeys {
  const ofKind = ring.filter(
    (entry) => entry.kind === kind && mayBeUsed(entry, now, rotationGracePeriod, accepted),
  );
  const [newest, ...others] = mostUseful(distinctKeys(ofKind), accepted);
  if (newest !== undefined) return [newest, ...others];
  const broken = ofKind.find((entry) => 'problem' in entry);
  const name = `login "${login.login}" in environment "${login.environment}"`;
  if (broken !== undefined && 'problem' in broken) {
    throw new ProxyError('key-unusable', `Version ${broken.version} of ${name}: ${broken.problem}.`);
  }
  const field =
    kind === 'control_key' ? 'control key (field control_key)' : 'RSA private key (field private_key)';
  throw new ProxyError('key-missing', `No ${field} for ${name}. Ask the platform team to add it.`);
}

/** The newest of them, and the accepted one. */
function mostUseful(keys: readonly UsableKey[], accepted: UsableKey | undefined): readonly UsableKey[] {
  const older = keys.slice(maxKeys - 1);
  const last = (accepted && findEqualKey(accepted, older)) ?? older[0];
  return last === undefined ? keys : [...keys.slice(0, maxKeys - 1), last];
}

export function usableIn(entries: KeyRing): UsableKey[] {
  return entries.filter((entry): entry is UsableKey => 'key' in entry);
}

/** The usable ones of these, equal keys once. @param entries of one kind, newest first */
export function distinctKeys(entries: KeyRing): UsableKey[] {
  const usable = usableIn(entries);
  return usable.filter((entry, index) => !usable.slice(0, index).some((newer) => sameKey(newer, entry)));
}

/** Unless it was superseded longer ago than the grace period, in milliseconds, and is not the accepted one. */
export function mayBeUsed(
  entry: KeyRing[number],
  now: number,
  gracePeriod: number,
  accepted: UsableKey | undefined,
): boolean {
  const { supersededAt } = entry;
  if (supersededAt === undefined || now - supersededAt.getTime() <= gracePeriod) return true;
  return 'key' in entry && sameKey(entry, accepted);
}

/** Whether two keys are there and equal, ignoring their versions. Compares control keys in constant time. */
export function sameKey(a: UsableKey, b: UsableKey | undefined): boolean {
  if (a.key === b?.key) return true;
  if (b === undefined || a.fingerprint !== b.fingerprint) return false;
  if (a.key.kind === 'control_key' && b.key.kind === 'control_key')
    return sameSecret(a.key.secret, b.key.secret);
  return a.fingerprint !== undefined;
}

export function includesKey(keys: readonly UsableKey[], key: UsableKey): boolean {
  return keys.some((one) => sameKey(one, key));
}

/** As {@link sameKey}, but also compares unusable keys, by their problem. */
export function sameContent(a: UsableKey | UnusableKey, b: UsableKey | UnusableKey): boolean {
  if ('key' in a && 'key' in b) return sameKey(a, b);
  return 'problem' in a && 'problem' in b && a.kind === b.kind && a.problem === b.problem;
}

/** The key as the newest of these versions has it. @param ring newest first */
export function findEqualKey(entry: UsableKey | UnusableKey, ring: KeyRing): UsableKey | undefined {
  if ('problem' in entry) return undefined;
  return ring.find((other): other is UsableKey => 'key' in other && sameKey(entry, other));
}

/** Also in versions and times. */
export function sameRing(a: KeyRing, b: KeyRing): boolean {
  return a.length === b.length && a.every((entry, index) => sameEntry(entry, b[index]));
}

function sameEntry(a: KeyRing[number], b: KeyRing[number] | undefined): boolean {
  return (
    b !== undefined &&
    a.version === b.version &&
    a.createdAt?.getTime() === b.createdAt?.getTime() &&
    a.supersededAt?.getTime() === b.supersededAt?.getTime() &&
    a.goneSince === b.goneSince &&
    sameContent(a, b)
  );
}
