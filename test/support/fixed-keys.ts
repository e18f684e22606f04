import { type KeySource, type KeySourceObserver, silentObserver } from '../../src/keys/key-source.ts';
import type { LoginRef } from '../../src/keys/login-ref.ts';
import { KeyReader } from '../../src/keys/reader.ts';
import type { KeyRing } from '../../src/keys/ring.ts';
import { type CurrentKeyObserver, KeySelector } from '../../src/keys/selector.ts';
import { KeyTable, type TableSettings } from '../../src/keys/table.ts';
import { type MonotonicClock, type SetTimer, setTimer, type WallClock } from '../../src/util/clock.ts';

/** The defaults of the configuration, in milliseconds. */
export const tableSettings: TableSettings = {
  ttl: 60_000,
  staleIfError: 43_200_000,
  negativeTtl: 10_000,
  maxEntries: 10_000,
  rotationGracePeriod: 86_400_000,
};

interface Clocks extends WallClock, MonotonicClock {
  readonly setTimer?: SetTimer;
}

interface PartsOptions {
  /** From 0 up to 1; always 0 unless given. */
  readonly random?: () => number;
  readonly settings?: Partial<TableSettings>;
  readonly events?: Partial<KeySourceObserver & CurrentKeyObserver>;
  readonly looked?: (login: LoginRef) => void;
}

/** The parts that handle keys over what is read, put together as by the service. */
export function keysOver(read: KeySource['read'], clocks: Clocks, options: PartsOptions = {}) {
  const source: KeySource = { read, start() {}, check: async () => {}, ready: () => true, stop() {} };
  const { clock, monotonic, setTimer: timer = setTimer } = clocks;
  const parts = { clock, monotonic, setTimer: timer, random: () => 0, sourceName: 'test', ...options };
  const events = { ...silentObserver, currentKeyChanged() {}, keyAccepted() {}, ...options.events };
  const table = new KeyTable({ ...tableSettings, ...options.settings }, { ...parts, events });
  const reader = new KeyReader(source, table, { ...parts, events });
  const keySelector = new KeySelector({ ...parts, table, reader, events });
  return { source, table, reader, keySelector };
}

/** Key selection over a source that has the same keys for every login, and responds at once. */
export function fixedKeys(ring: () => KeyRing | Promise<KeyRing>, clocks: Clocks) {
  return keysOver(async () => ({ ring: await ring(), gone: [] }), clocks);
}
