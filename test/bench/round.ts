import type { Child } from './child.ts';
import { type KeyBits, keyFileOf } from './countersign.ts';
import type { LoadOrder, LoadResult } from './peers/load.ts';
import type { CoreOrder, PoolOrder } from './peers/signatures.ts';
import type { Way, WayName, Ways } from './scenarios.ts';

/** One way in one round. Durations in seconds, CPU in seconds per request. */
export interface Measurement {
  /** Requests a second. */
  readonly rate: number;
  readonly p50: number;
  readonly p99: number;
  /** Of the proxy in between. */
  readonly cpu: number;
  /** Of load generator and upstream together: what the proxy has to share the machine with. */
  readonly cpuAround: number;
}

/** Signatures a second with the machine doing nothing else. */
export interface SigningRates {
  /** As many at once as Countersign has. */
  readonly limited: number;
  /** As many at once as libuv's pool has threads. */
  readonly pool: number;
  /** Per second of CPU time. */
  readonly core: number;
}

export interface Round {
  readonly ways: Readonly<Record<WayName, Measurement>>;
  readonly signing: Readonly<Record<KeyBits, SigningRates>>;
  /** HMAC-SHA1 signatures per second of CPU time. */
  readonly hmacCore: number;
}

export interface RoundPlan {
  readonly ways: Ways;
  readonly load: Child;
  readonly upstream: Child;
  readonly signatures: Child;
  readonly requests: number;
  readonly connections: number;
  /** RSA signatures at once. */
  readonly signing: number;
}

/** Threads of libuv's pool. */
export const poolSize = 4;

/** Everything once; what is compared with one another comes soon after one another. */
export async function measureRound(plan: RoundPlan): Promise<Round> {
  const pass = (name: WayName): Promise<Measurement> => passBy(plan.ways[name], plan);
  const hmac: CoreOrder = { ask: 'core', signatures: plan.requests * 5 };
  return {
    ways: {
      direct: await pass('direct'),
      bare: await pass('bare'),
      hmac: await pass('hmac'),
      'rsa-2048': await pass('rsa-2048'),
      'rsa-4096': await pass('rsa-4096'),
    },
    signing: {
      4096: await signingRates(4096, plan.ways['rsa-4096'], plan),
      2048: await signingRates(2048, plan.ways['rsa-2048'], plan),
    },
    hmacCore: await plan.signatures.ask<number>(hmac),
  };
}

async function passBy(
  way: Way,
  { load, upstream, requests: most, connections }: RoundPlan,
): Promise<Measurement> {
  const { url, body, proxy } = way;
  const requests = requestsBy(way, most);
  const order: LoadOrder = { ask: 'load', url, body, requests, connections };
  const cpuOf = async (processes: readonly Child[]): Promise<number> =>
    (await Promise.all(processes.map((child) => child.cpu()))).reduce((sum, seconds) => sum + seconds, 0);
  const inside = proxy === undefined ? [] : [proxy];
  const [before, beforeAround] = [await cpuOf(inside), await cpuOf([load, upstream])];
  const { seconds, p50, p99 } = await load.ask<LoadResult>(order);
  return {
    rate: requests / seconds,
    p50,
    p99,
    cpu: ((await cpuOf(inside)) - before) / requests,
    cpuAround: ((await cpuOf([load, upstream])) - beforeAround) / requests,
  };
}

async function signingRates(bits: KeyBits, way: Way, plan: RoundPlan): Promise<SigningRates> {
  const { signatures: process, signing, requests } = plan;
  const signatures = requestsBy(way, requests);
  const keyFile = keyFileOf(bits);
  const pool: PoolOrder = { ask: 'pool', keyFile, signatures, concurrency: poolSize };
  const limited: PoolOrder = { ...pool, concurrency: signing };
  const core: CoreOrder = { ask: 'core', keyFile, signatures: Math.ceil(signatures / 4) };
  return {
    limited: await process.ask<number>(limited),
    pool: await process.ask<number>(pool),
    core: await process.ask<number>(core),
  };
}

function requestsBy(way: Way, most: number): number {
  return Math.ceil(most * way.share);
}
