import { generateKeyPairSync } from 'node:crypto';
import { parseKeys } from '../../src/keys/key.ts';
import { type CacheResult, silentObserver } from '../../src/keys/key-source.ts';
import type { LoginRef } from '../../src/keys/login-ref.ts';
import { KeySelector } from '../../src/keys/selector.ts';
import type { KeyKind } from '../../src/oauth1/methods.ts';
import { setTimer } from '../../src/util/clock.ts';
import { fixedKeys } from './fixed-keys.ts';

/**
 * Run by a test with --expose-gc, in a separate process: fills the table with ten thousand logins, takes a key of
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
const monotonic = () => performance.now();
const { table, reader } = fixedKeys(
  () => {
    reads += 1;
    const fields = { control_key: `control-key-${reads}`, private_key: pems[reads % pems.length] };
    return parseKeys(fields, { version: 1, createdAt: new Date() });
  },
  { clock: Date.now, monotonic },
);
const results: Partial<Record<CacheResult, number>> = {};
const events = {
  ...silentObserver,
  currentKeyChanged() {},
  keyAccepted() {},
  keyLookup: (_environment: string, result: CacheResult) =>
    void (results[result] = (results[result] ?? 0) + 1),
};
const keySelector = new KeySelector({ table, reader, monotonic, setTimer, events });

/** Takes a key of a login, as a request does. */
async function take(login: LoginRef, kind: KeyKind): Promise<void> {
  const request = { login, kind, caller: 'shop', endpoint: '', readOnly: true, maxInFlight: 200 };
  await keySelector.query({ ...request, deadline: monotonic() + 30_000 }, async (keyNow) => ({
    response: undefined,
    testimony: 'silent',
    key: keyNow(),
    sentAt: monotonic(),
  }));
}

const before = residentMemory();
for (const login of logins) await take(login, 'control_key');
const bytes = residentMemory() - before;
const readsToFill = reads;
const times: number[] = [];
for (const kind of ['control_key', 'private_key'] as const) {
  for (const login of logins) {
    const startedAt = performance.now();
    await take(login, kind);
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
