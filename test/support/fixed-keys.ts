import { type KeySource, silentObserver } from '../../src/keys/key-source.ts';
import { KeyReader } from '../../src/keys/reader.ts';
import type { KeyRing } from '../../src/keys/ring.ts';
import { KeySelector } from '../../src/keys/selector.ts';
import { KeyTable, type TableSettings } from '../../src/keys/table.ts';
import { type MonotonicClock, setTimer, type WallClock } from '../../src/util/clock.ts';

const settings: TableSettings = {
  ttl: 60_000,
  staleIfError: 43_200_000,
  negativeTtl: 10_000,
  maxEntries: 10_000,
  rotationGracePeriod: 86_400_000,
};

/** Key selection over a source that has the same keys for every login, and responds at once. */
export function fixedKeys(
  ring: () => KeyRing | Promise<KeyRing>,
  { clock, monotonic }: WallClock & MonotonicClock,
) {
  const source: KeySource = {
    read: async () => ({ ring: await ring(), gone: [] }),
    start() {},
    check: async () => {},
    ready: () => true,
    stop() {},
  };
  const events = { ...silentObserver, currentKeyChanged() {}, keyAccepted() {} };
  const table = new KeyTable(settings, { clock, monotonic, random: () => 0, events });
  const reader = new KeyReader(source, table, { monotonic, setTimer, events, sourceName: 'directory' });
  const keySelector = new KeySelector({ table, reader, monotonic, setTimer, events });
  return { source, table, reader, keySelector };
}
