import { createPublicKey } from 'node:crypto';
import type { KeyKind } from '../oauth1/methods.ts';
import { sameKey } from './key.ts';
import type { KeyRing, UnusableKey, UsableKey } from './key-source.ts';

/** The public facts of a key. The names are those of `--json`. */
export interface KeyDescription {
  readonly kind: KeyKind;
  /** Why it cannot be used. */
  readonly problem?: string;
  /** SHA-256 over the public key's SPKI DER, hex. */
  readonly fingerprint?: string;
  readonly bits?: number;
  /** PEM, SPKI. */
  readonly publicKey?: string;
}

export function describeKey(entry: UsableKey | UnusableKey): KeyDescription {
  const { kind } = entry;
  if ('problem' in entry) return { kind, problem: entry.problem };
  if (entry.key.kind === 'control_key') return { kind };
  const { privateKey } = entry.key;
  return {
    kind,
    ...(entry.fingerprint === undefined ? {} : { fingerprint: entry.fingerprint }),
    bits: privateKey.asymmetricKeyDetails?.modulusLength ?? 0,
    publicKey: createPublicKey(privateKey).export({ type: 'spki', format: 'pem' }).trimEnd(),
  };
}

export function findEqualKey(entry: UsableKey | UnusableKey, ring: KeyRing): UsableKey | undefined {
  if ('problem' in entry) return undefined;
  return ring.find((other): other is UsableKey => 'key' in other && sameKey(entry, other));
}

/** Formats an age in the largest whole unit, such as `5m` or `40d`. */
export function age(createdAt: Date | undefined, now: number): string {
  return createdAt === undefined ? '' : span((now - createdAt.getTime()) / 1000);
}

/** Formats seconds in the same way; less than none count as none. */
export function span(exact: number): string {
  const seconds = Math.max(0, Math.floor(exact));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`;
}
