import { ProxyError } from '../errors.ts';
import type { KeyKind } from '../oauth1/methods.ts';
import { findEqualKey, sameKey } from './key.ts';
import type { UsableKeys } from './key-history.ts';
import type { KeyReading, KeyRing, LoginRef, NoKeys, UsableKey } from './key-source.ts';

/**
 * The distinct keys of one kind that may be used now, newest first: the current one, those superseded within the
 * grace period, and the one that the gateway accepted last. Unusable keys are skipped if there is a usable one.
 *
 * A new version of the secret may change only one kind of key, so equal keys of several versions count once,
 * with their newest version.
 *
 * @param now milliseconds since 1970
 * @param rotationGracePeriod milliseconds
 * @throws ProxyError `key-missing`, `key-unusable`; the detail names login and version, never key material.
 */
export function usableKeys(
  login: LoginRef,
  ring: KeyRing,
  kind: KeyKind,
  now: number,
  rotationGracePeriod: number,
): UsableKeys {
  const ofKind = ring.filter((entry) => entry.kind === kind && mayBeUsed(entry, now, rotationGracePeriod));
  const [newest, ...others] = distinctKeys(ofKind);
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

export function usableIn(entries: KeyRing): UsableKey[] {
  return entries.filter((entry): entry is UsableKey => 'key' in entry);
}

/** The usable ones of these, equal keys once. @param entries of one kind, newest first */
export function distinctKeys(entries: KeyRing): UsableKey[] {
  const usable = usableIn(entries);
  return usable.filter((entry, index) => !usable.slice(0, index).some((newer) => sameKey(newer, entry)));
}

/** Unless it was superseded longer ago than the grace period, in milliseconds, and the gateway accepted another key. */
export function mayBeUsed(
  { supersededAt, isAccepted }: KeyRing[number],
  now: number,
  gracePeriod: number,
): boolean {
  return supersededAt === undefined || isAccepted === true || now - supersededAt.getTime() <= gracePeriod;
}

/** The ring of a reading; `undefined` if there are no keys. */
export function ringIn(reading: KeyReading | NoKeys): KeyRing | undefined {
  return typeof reading === 'string' ? undefined : reading.ring;
}

/** The ring with the keys marked that the gateway accepted last, each with its newest version. */
export function withAccepted(ring: KeyRing, accepted: readonly UsableKey[]): KeyRing {
  const marked: KeyRing = accepted.flatMap((key) => findEqualKey(key, ring) ?? []);
  return ring.map((entry) => {
    const { isAccepted: _isAccepted, ...unmarked } = entry;
    return marked.includes(entry) ? { ...unmarked, isAccepted: true } : unmarked;
  });
}
