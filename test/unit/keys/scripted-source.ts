import { SourceUnavailable } from '../../../src/keys/errors.ts';
import { parseKeys } from '../../../src/keys/key.ts';
import type { KeyReading, KeySourceObserver, NoKeys } from '../../../src/keys/key-source.ts';
import { type LoginRef, loginRefString } from '../../../src/keys/login-ref.ts';
import { distinctKeys, type KeyRing, type UsableKey, type UsableKeys } from '../../../src/keys/ring.ts';
import type { CurrentKeyObserver } from '../../../src/keys/selector.ts';
import type { TableSettings } from '../../../src/keys/table.ts';
import { reveal } from '../../../src/secret.ts';
import { keysOver, tableSettings } from '../../support/fixed-keys.ts';
import { noon, settled, VirtualClock } from '../../support/virtual-clock.ts';

export const refOf = (login: string, environment = 'sandbox'): LoginRef => ({ environment, login });
export const acme = refOf('acme');

/** A ring of control keys, newest first, numbered down to 1; an empty one is unusable. */
export function ringOf(...controlKeys: readonly string[]): KeyRing {
  return controlKeys.flatMap((key, index) => {
    const superseded = index === 0 ? {} : { supersededAt: new Date(noon - 1_000) };
    return parseKeys({ control_key: key }, { version: controlKeys.length - index, ...superseded });
  });
}

export function usable(ring: KeyRing): UsableKeys {
  const [newest, ...others] = distinctKeys(ring);
  if (newest === undefined) throw new TypeError('no usable key');
  return [newest, ...others];
}

/** The text of a control key. */
export function textOf({ key }: UsableKey): string {
  return key.kind === 'control_key' ? reveal(key.secret) : 'no control key';
}

/** A source that responds at once, or when the test releases its reads. The result is that of the start of the read. */
export class ScriptedSource {
  readonly rings = new Map<string, KeyRing>();
  /** What reads of this login throw instead. */
  failure: (ref: LoginRef) => SourceUnavailable | undefined = () => undefined;
  paused = false;
  /** Logins in the order of the starts of their reads. */
  readonly started: string[] = [];
  running = 0;
  /** The ring that the last read was to find again. */
  known: KeyRing = [];
  #pending: (() => void)[] = [];

  /** All reads fail, as of a source that does not respond. */
  fail(): void {
    this.failure = (ref) => new SourceUnavailable(ref, new Error('is down'), 'down');
  }

  /** This login may not be read. */
  deny(login: string): void {
    this.failure = (ref) =>
      ref.login === login ? new SourceUnavailable(ref, new Error('no permission'), 'denied') : undefined;
  }

  heal(): void {
    this.failure = () => undefined;
  }

  set(ref: LoginRef, ...controlKeys: readonly string[]): void {
    this.rings.set(loginRefString(ref), ringOf(...controlKeys));
  }

  delete(ref: LoginRef): void {
    this.rings.delete(loginRefString(ref));
  }

  async read(ref: LoginRef, known: KeyRing = []): Promise<KeyReading | NoKeys> {
    this.known = known;
    const ring = this.rings.get(loginRefString(ref));
    const failure = this.failure(ref);
    this.started.push(ref.login);
    this.running += 1;
    if (this.paused) await new Promise<void>((resolve) => void this.#pending.push(resolve));
    this.running -= 1;
    if (failure !== undefined) throw failure;
    return ring === undefined ? 'deleted' : { ring, gone: [] };
  }

  /** Ends the reads in flight. */
  async release(): Promise<void> {
    for (const resolve of this.#pending.splice(0)) resolve();
    await settled();
  }
}

export const settings = { ...tableSettings, maxEntries: 1_000 };
export const { ttl, staleIfError } = settings;

/** Keys over a scripted source on a virtual clock, and what they report, as texts. */
export function newKeys(changed: Partial<TableSettings> = {}) {
  const time = new VirtualClock();
  const source = new ScriptedSource();
  const told: string[] = [];
  const looked: string[] = [];
  const lookups: string[] = [];
  const changes: string[] = [];
  const events: Partial<KeySourceObserver & CurrentKeyObserver> = {
    keyRingUpdated: ({ login }, ring, removal, lost = []) => {
      const keys = ring?.map((entry) => ('key' in entry ? textOf(entry) : 'unusable')).join(' ');
      const versions = lost.map(({ kind, version }) => `, lost ${kind} ${version}`);
      told.push(`${login} ${keys ?? removal}${versions.join('')}`);
    },
    loginsNotFound: (count, ref, one) =>
      void told.push(`${count} not found${ref ? `: ${ref.login}` : ''}${one ? ` (${one})` : ''}`),
    loginsDenied: (count, cause, one) => void told.push(`${count} denied: ${cause}${one ? ` (${one})` : ''}`),
    keySourceUp: (up, cause) => void (up || told.push(`down: ${cause}`)),
    keyProblem: (problem, ref) => void told.push(`${ref?.login}: ${problem}`),
    keyLookup: (_environment, result) => void lookups.push(result),
    currentKeyChanged: ({ login }, kind, from, to) => void changes.push(`${login} ${kind} ${from} ${to}`),
  };
  const newTable = (other: Partial<TableSettings> = {}) =>
    keysOver((ref, known) => source.read(ref, known), time, {
      events,
      settings: { ...settings, ...changed, ...other },
      looked: ({ login }) => void looked.push(login),
    });
  return { time, told, looked, lookups, changes, newTable, ...newTable(), source };
}
