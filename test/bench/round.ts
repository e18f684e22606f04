import { type KeyObject, sign } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { promisify } from 'node:util';
import { privateKeyOf } from '../support/vectors.ts';
import { type Load, type Measurement, measure, watchOthers } from './measure.ts';
import type { KeyBits } from './proxies.ts';
import { isNaive, type Way, wayThrough } from './ways.ts';

export interface Row extends Partial<Measurement> {
  readonly way: Way;
  /** At 500 requests/s, if the way is fast enough; the rest is with 32 connections that always wait for a response. */
  readonly paced?: Measurement;
  /**
   * What was measured just before and after, on average. RSA: signatures/s of the machine with nothing else to do.
   * Otherwise: CPU of the naive app with 32 connections, in µs.
   */
  readonly reference?: number;
  /** CPU of the naive app while both got 500 requests/s, in µs. */
  readonly pacedReference?: number;
}

export interface Round {
  readonly rows: readonly Row[];
  /** Share of the CPU that other processes or the hypervisor used, 0 to 1. */
  readonly disturbance: number;
}

interface Loads {
  readonly full: Load;
  readonly paced: Load & { readonly rate: number };
  /** Its result is discarded: a process that was idle for a minute has to warm up again. */
  readonly again: Load;
}

export async function measureRound(ways: readonly Way[], seconds: number): Promise<Round> {
  const full = { seconds, connections: 32 };
  const again = { ...full, seconds: Math.ceil(seconds / 2) };
  const paced = { seconds, connections: 50, rate: 500 };
  const loads = { full, paced, again };
  const disturbance = watchOthers();
  const naive = ways.find(isNaive);
  const rsa = ways.find(({ name }) => name === 'Countersign, RSA 4096');
  if (naive === undefined || rsa?.proxy === undefined) throw new TypeError('a way is missing');
  const rows: Row[] = [];
  for (const way of ways) {
    if (way === naive) continue;
    if (way.proxy === undefined)
      rows.push({ way, ...(await measure(way, full)), paced: await measure(way, paced) });
    else if (typeof way.signature === 'number') rows.push(await measureRsa(way, way.signature, loads));
    else rows.push(...(await measureBeside(naive, way, loads)));
  }
  const hmac = wayThrough('Countersign', 'HMAC', rsa.proxy);
  const [beside] = await Promise.all([measure(hmac, paced), measure(rsa, full)]);
  rows.push({ way: { ...hmac, name: 'Countersign, HMAC beside RSA 4096' }, paced: beside });
  return { rows, disturbance: disturbance() };
}

/** @returns the row of the way; with Countersign's, that of the naive app too */
async function measureBeside(naive: Way, way: Way, { full, paced, again }: Loads): Promise<Row[]> {
  await measure(naive, again);
  await measure(way, again);
  const before = await measure(naive, full);
  const row = await measure(way, full);
  const after = await measure(naive, full);
  const [beside, atRate] = await Promise.all([measure(naive, paced), measure(way, paced)]);
  const references = { reference: mean(before.cpu, after.cpu), pacedReference: beside.cpu };
  const measured = { way, ...row, paced: atRate, ...references };
  if (way.name !== 'Countersign, HMAC') return [measured];
  return [{ way: naive, ...average(before, after), paced: beside, ...references }, measured];
}

function average(one: Measurement, other: Measurement): Measurement {
  return {
    requests: mean(one.requests, other.requests),
    rate: mean(one.rate, other.rate),
    cpu: mean(one.cpu, other.cpu),
    p50: mean(one.p50, other.p50),
    p99: mean(one.p99, other.p99),
    memory: mean(one.memory, other.memory),
  };
}

const mean = (one: number, other: number): number => (one + other) / 2;

async function measureRsa(way: Way, bits: KeyBits, { full, paced, again }: Loads): Promise<Row> {
  await measure(way, again);
  const before = await signingRate(bits, again.seconds);
  const row = { way, ...(await measure(way, full)) };
  const reference = mean(before, await signingRate(bits, again.seconds));
  const isFast = row.rate > 1.3 * paced.rate;
  return { ...row, reference, ...(isFast ? { paced: await measure(way, paced) } : {}) };
}

/** Signatures/s that `crypto.sign` makes on the four threads of libuv's pool. */
async function signingRate(bits: KeyBits, seconds: number): Promise<number> {
  const key = privateKeyOf(`rsa-${bits}-pkcs8.pem`);
  const signOnThread = promisify<string, Buffer, KeyObject, Buffer>(sign);
  const end = performance.now() + seconds * 1000;
  let signatures = 0;
  const thread = async (): Promise<void> => {
    for (; performance.now() < end; signatures += 1) await signOnThread('sha256', Buffer.alloc(500), key);
  };
  await Promise.all([thread(), thread(), thread(), thread()]);
  return signatures / seconds;
}
