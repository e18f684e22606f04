import { generateKeyPairSync } from 'node:crypto';
import { parseKeys } from '../../src/keys/key.ts';
import { KeyCache } from '../../src/keys/key-cache.ts';
import { KeySelector } from '../../src/keys/key-selector.ts';
import type { CacheResult, KeySource, KeySourceObserver } from '../../src/keys/key-source.ts';

/**
 * Run by a test with --expose-gc, in a separate process: fills the cache with ten thousand logins, selects a key of
 * each, and prints the cost.
 */
const logins = Array.from({ length: 10_000 }, (_, index) => ({
  environment: 'production',
  login: `merchant-${index}`,
}));
/** Each login parses its key separately, as in production; generating so many different keys takes too long. */
const pems = Array.from({ length: 20 }, () =>
  generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' }),
);

let reads = 0;
const source: KeySource = {
  async read({ login }) {
    reads += 1;
    const fields = { control_key: `control-key-of-${login}`, private_key: pems[reads % pems.length] };
    const ring = parseKeys(fields, { version: 1, createdAt: new Date() });
    return { ring, current: '1', gone: [] };
  },
  readCurrent: async () => '1',
  start() {},
  ready: () => true,
  stop() {},
};

const results: Partial<Record<CacheResult, number>> = {};
const events: KeySourceObserver = {
  keyLookup: (_environment, result) => void (results[result] = (results[result] ?? 0) + 1),
  keyFetched() {},
  keyRingUpdated() {},
  loginsNotFound() {},
  keySourceUp() {},
  loginsDenied() {},
  cachedKeysExpire() {},
  loginFailed() {},
  tokenExpiryChanged() {},
  keyProblem() {},
};
const cache = new KeyCache(
  source,
  { ttl: 3_600_000, staleIfError: 43_200_000, negativeTtl: 10_000, maxEntries: 10_000 },
  { monotonic: () => performance.now(), random: Math.random, events, sourceName: 'vault' },
);
const rotation = new KeySelector({
  keys: cache,
  metrics: { keyFallback() {}, keyProblem() {} },
  clock: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer: () => () => {},
  rotationGracePeriod: 86_400_000,
});

const before = residentMemory();
for (const address of logins) await cache.get(address);
const bytes = residentMemory() - before;
const readsToFill = reads;
const times: number[] = [];
for (const kind of ['control_key', 'private_key'] as const) {
  for (const address of logins) {
    const startedAt = performance.now();
    (await rotation.keysOf(address, kind)).select();
    times.push(performance.now() - startedAt);
  }
}
times.sort((a, b) => a - b);

console.log(
  JSON.stringify({
    bytes,
    readsToFill,
    readsWhenWarm: reads - readsToFill,
    results,
    medianMicroseconds: quantile(0.5) * 1000,
    p99Microseconds: quantile(0.99) * 1000,
  }),
);

function quantile(q: number): number {
  return times[Math.floor(times.length * q)] ?? Number.NaN;
}

function residentMemory(): number {
  globalThis.gc?.();
  return process.memoryUsage().rss;
}
