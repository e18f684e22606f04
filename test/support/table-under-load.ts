import { setTimeout as wait } from 'node:timers/promises';
import { SourceUnavailable } from '../../src/keys/errors.ts';
import { parseKeys } from '../../src/keys/key.ts';
import { type KeySource, silentObserver } from '../../src/keys/key-source.ts';
import { KeyReader } from '../../src/keys/reader.ts';
import { type KeyRequest, KeySelector } from '../../src/keys/selector.ts';
import { KeyTable } from '../../src/keys/table.ts';
import { setTimer } from '../../src/util/clock.ts';
import { Random } from './random.ts';

/**
 * Run by a test with --expose-gc, in a separate process: sends very many requests through the key table, above each of its
 * limits, while the source fails, hangs, and responds late; and prints what became of them.
 */
const [total = 0, seed = 0] = process.argv.slice(2).map(Number);
const random = new Random(seed);
const callers = 20;
/** Requests at a time. */
const clients = 1_200;
const environments = ['sandbox', 'production'];

const unhandled: string[] = [];
process.on('unhandledRejection', (reason) => void unhandled.push(String(reason)));

let mode: 'responds' | 'late' | 'fails' | 'hangs' = 'responds';
let reads = 0;

const source: KeySource = {
  check: async () => {},
  async read(login) {
    reads += 1;
    const fails = mode === 'fails' || (mode === 'late' && random.chance(0.05));
    if (mode === 'late') await wait(random.int(1, 60));
    if (mode === 'hangs') await wait(1_500);
    if (fails || mode === 'hangs') throw new SourceUnavailable(login, new Error('no response'), 'down');
    if (login.login.startsWith('invented')) return 'not-found';
    if (login.login.startsWith('denied')) throw new SourceUnavailable(login, new Error('denied'), 'denied');
    if (login.login.startsWith('deleted') && random.chance(0.3)) return 'deleted';
    const version = 1 + random.int(0, 3);
    const keys = parseKeys(
      { control_key: `key ${version} of ${login.login}` },
      { version, createdAt: new Date() },
    );
    return { ring: keys, gone: [] };
  },
  start() {},
  ready: () => true,
  stop() {},
};

const monotonic = () => performance.now();
const options = {
  monotonic,
  clock: Date.now,
  random: () => random.next(),
  setTimer,
  events: { ...silentObserver, currentKeyChanged() {}, keyAccepted() {} },
};
const table = new KeyTable(
  { ttl: 300, staleIfError: 10_000, negativeTtl: 200, maxEntries: 500, rotationGracePeriod: 60_000 },
  options,
);
const reader = new KeyReader(source, table, { ...options, sourceName: 'test' });
const selector = new KeySelector({ table, reader, ...options });
reader.start();

const results = new Map<string, number>();
let sent = 0;

function loginFor(nth: number): string {
  if (nth % 4 === 0) return `invented-${nth}`;
  if (nth % 11 === 0) return `denied-${nth % 700}`;
  if (nth % 13 === 0) return `deleted-${nth % 50}`;
  return `real-${random.int(0, nth % 3 === 0 ? 2_000 : 100)}`;
}

async function request(nth: number): Promise<void> {
  const readOnly = random.chance(0.5);
  const keyed: KeyRequest = {
    login: { environment: environments[nth % 2] ?? '', login: loginFor(nth) },
    kind: 'control_key',
    caller: `caller-${random.int(0, callers - 1)}`,
    endpoint: `endpoint-${random.int(0, 40)}`,
    readOnly,
    deadline: monotonic() + 400,
    maxInFlight: 500,
  };
  const say = async (key: () => { readonly version: number }) => {
    key();
    await wait(random.int(0, 5));
    const testimony = random.chance(0.4) ? 'rejected' : random.chance(0.8) ? 'accepted' : 'silent';
    return { response: testimony, testimony } as const;
  };
  const result = await selector[readOnly ? 'query' : 'payment'](keyed, async (keyNow) => {
    const sentAt = monotonic();
    return { ...(await say(keyNow)), key: keyNow(), sentAt };
  }).catch((error: unknown) =>
    error instanceof Error && 'reason' in error ? String(error.reason) : String(error),
  );
  results.set(result, (results.get(result) ?? 0) + 1);
}

function isOver(): boolean {
  return sent >= total;
}

async function client(): Promise<void> {
  while (!isOver()) {
    sent += 1;
    await request(sent);
    // A request that is refused costs a client some time too.
    await wait(1);
  }
}

/** The timers of the parts do not keep a process alive. */
const alive = setInterval(() => {}, 1_000);
const heaps: number[] = [];
const modes = ['responds', 'late', 'fails', 'late', 'hangs', 'responds'] as const;
const measuring = (async () => {
  for (let turn = 0; ; turn += 1) {
    if (sent >= total) return;
    mode = modes[turn % modes.length] ?? 'responds';
    await wait(1_500);
    globalThis.gc?.();
    if (turn % modes.length === 0) heaps.push(process.memoryUsage().heapUsed);
  }
})();
const work = Promise.all(Array.from({ length: clients }, client));
await measuring;
// Every request has a deadline, so a lack of results shows one that never ends.
await Promise.race([work, wait(10_000)]);
mode = 'responds';
// What hangs ends, and an unhandled rejection would show.
await wait(3_000);
globalThis.gc?.();
heaps.push(process.memoryUsage().heapUsed);
const afterwards: KeyRequest = {
  login: { environment: 'sandbox', login: 'after' },
  kind: 'control_key',
  caller: 'after',
  endpoint: '',
  readOnly: true,
  deadline: monotonic() + 5_000,
  maxInFlight: 500,
};
const isBack = await selector
  .query(afterwards, async (keyNow) => ({
    response: true,
    testimony: 'accepted',
    key: keyNow(),
    sentAt: monotonic(),
  }))
  .catch(() => false);
clearInterval(alive);
console.log(JSON.stringify({ unhandled, reads, heaps, isBack, results: Object.fromEntries(results) }));
reader.stop();
