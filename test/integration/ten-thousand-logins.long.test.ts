import { execFileSync } from 'node:child_process';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import type { KeySource } from '../../src/keys/key-source.ts';
import { KeyReader } from '../../src/keys/reader.ts';
import { KeySelector } from '../../src/keys/selector.ts';
import { KeyTable } from '../../src/keys/table.ts';
import { setTimer } from '../../src/util/clock.ts';
import { printNumbers } from '../support/load.ts';
import { RecordingObserver, vaultConfig, vaultSource } from '../support/stub-vault/harness.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { until } from '../support/until.ts';

const program = fileURLToPath(new URL('../support/ten-thousand-logins.ts', import.meta.url));
const costShape = z.object({
  bytes: z.number(),
  readsToFill: z.number(),
  readsWhenWarm: z.number(),
  results: z.record(z.string(), z.number()),
  medianMicroseconds: z.number(),
  p99Microseconds: z.number(),
});

describe('ten thousand logins in memory', () => {
  let cost: z.output<typeof costShape>;

  beforeAll(() => {
    const env = { ...process.env, NODE_OPTIONS: '' };
    const printed = execFileSync(process.execPath, ['--expose-gc', program], { env, encoding: 'utf8' });
    cost = costShape.parse(JSON.parse(printed));
    printNumbers('Ten thousand logins in memory, each with a control key and an RSA key of 2048 bits', {
      'resident memory, MB': Math.round(cost.bytes / 2 ** 20),
      'of one login, kB': Math.round(cost.bytes / 2 ** 10 / cost.readsToFill),
      'taking a warm key, median, µs': Math.round(cost.medianMicroseconds),
      'taking a warm key, p99, µs': Math.round(cost.p99Microseconds),
      'reads of the source for 20,000 warm keys': cost.readsWhenWarm,
    });
  }, 60_000);

  it('take less than 200 MB', () => {
    expect(cost.readsToFill).toBe(10_000);
    expect(cost.bytes).toBeGreaterThan(10 * 2 ** 20);
    expect(cost.bytes).toBeLessThan(200 * 2 ** 20);
  });

  it('need no read and no measurable time', () => {
    expect(cost.results).toEqual({ fetched: 10_000, fresh: 20_000 });
    expect(cost.readsWhenWarm).toBe(0);
    expect(cost.p99Microseconds).toBeLessThan(1000);
  });
});

describe('ten thousand logins in Vault', () => {
  const count = 10_000;
  const refs = Array.from({ length: count }, (_, index) => ({
    environment: 'production',
    login: `merchant-${index}`,
  }));
  const ttl = 60_000;
  /** Requests at a time. */
  const clients = 500;
  /** Milliseconds of an outage, and of what is measured after it. */
  const window = 3000;
  const reads = /^GET secret\/data/;
  const stub = new StubVault();
  /** Added to the clock, so that keys age. */
  let aged = 0;
  let [inFlight, mostInFlight] = [0, 0];
  let reader: KeyReader;
  let keySelector: KeySelector;

  beforeAll(async () => {
    const vault = vaultConfig(await stub.listen());
    for (const { login } of refs) stub.put(`gateway/production/${login}`, { control_key: login });
    const monotonic = () => performance.now() + aged;
    const events = new RecordingObserver();
    const options = { clock: Date.now, monotonic, random: Math.random, events, setTimer };
    const source = vaultSource(vault, options);
    const counted: KeySource = {
      ...source,
      async read(...call) {
        inFlight += 1;
        mostInFlight = Math.max(mostInFlight, inFlight);
        return source.read(...call).finally(() => (inFlight -= 1));
      },
    };
    const settings = { ttl, staleIfError: 43_200_000, negativeTtl: 10_000, maxEntries: count };
    const table = new KeyTable({ ...settings, rotationGracePeriod: 86_400_000 }, options);
    reader = new KeyReader(counted, table, { ...options, sourceName: 'vault' });
    const fallbacks = { keyLookup() {}, currentKeyChanged() {}, keyAccepted() {} };
    keySelector = new KeySelector({ table, reader, monotonic, setTimer, events: fallbacks });
    reader.start();
  });
  afterAll(async () => {
    reader.stop();
    await stub.close();
  });

  /** Reads of Vault per second while the work lasts. */
  async function measured(work: () => Promise<unknown>) {
    const before = stub.count(reads);
    mostInFlight = 0;
    const startedAt = performance.now();
    await work();
    const seconds = (performance.now() - startedAt) / 1000;
    const all = stub.count(reads) - before;
    return { all, perSecond: Math.round(all / seconds), mostInFlight };
  }

  /** A request for each login, of two callers. */
  async function requestAll(): Promise<void> {
    const remaining = refs.values();
    const client = async (_: unknown, index: number) => {
      const common = { kind: 'control_key', endpoint: '', readOnly: true, maxInFlight: 2 * clients } as const;
      for (const login of remaining) {
        const deadline = performance.now() + aged + 30_000;
        const request = { ...common, login, caller: `caller-${index % 2}`, deadline };
        await keySelector.query(request, async (keyNow) => ({
          response: undefined,
          testimony: 'silent',
          key: keyNow(),
          sentAt: 0,
        }));
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
  }

  it('are read sixteen at a time for requests and eight at a time again, and hardly while Vault is away', async () => {
    const start = await measured(requestAll);
    stub.sealed = true;
    aged += ttl;
    await requestAll();
    const away = await measured(() => Promise.all([requestAll(), wait(window)]));
    const readsAway = stub.count(reads);
    stub.heal();
    await until(() => stub.count(reads) > readsAway + 1, 'the recovery is noticed without requests', 15);
    const recovers = await measured(() => wait(window));
    const requested = await measured(() => Promise.all([requestAll(), wait(window)]));
    printNumbers('Ten thousand logins in Vault (the stub, in the same process)', {
      'cold start, reads per second': start.perSecond,
      'cold start, in flight': start.mostInFlight,
      'away, reads per second, with requests of all logins': away.perSecond,
      'back, reads per second, without requests': recovers.perSecond,
      'back, reads per second, with requests of all logins': requested.perSecond,
      'back, in flight': Math.max(recovers.mostInFlight, requested.mostInFlight),
    });
    expect(start).toMatchObject({ all: count, mostInFlight: 16 });
    // Those in flight when it was sealed, and one probe per second.
    expect(away.all).toBeLessThanOrEqual(8 + window / 1000 + 1);
    expect(recovers.mostInFlight).toBeLessThanOrEqual(8);
    expect(requested.mostInFlight).toBeLessThanOrEqual(8);
    // A hundred in each half second.
    expect(recovers.perSecond).toBeGreaterThan(50);
    expect(recovers.perSecond).toBeLessThan(250);
  }, 120_000);
});
