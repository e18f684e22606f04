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
  /** RSA: signatures/s of the machine with nothing else to do, just before and after, on average. */
  readonly signing?: number;
  /** Without RSA: this way and the naive app at the same time, with 32 connections each and at 500 requests/s each. */
  readonly beside?: { readonly full: Comparison; readonly paced: Comparison };
}

interface Comparison {
  readonly way: Measurement;
  readonly naive: Measurement;
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
  // Longer, since p99 is that of the slowest 50.
  const paced = { seconds: 2 * seconds, connections: 50, rate: 500 };
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
  const naiveAlone = await measure(naive, full);
  const alone = await measure(way, full);
  const both = async (load: Load): Promise<Comparison> => {
    const [ofNaive, ofWay] = await Promise.all([measure(naive, load), measure(way, load)]);
    return { naive: ofNaive, way: ofWay };
  };
  const beside = { full: await both(full), paced: await both(paced) };
  const row = { way, ...alone, paced: beside.paced.way, beside };
  if (way.name !== 'Countersign, HMAC') return [row];
  const itself = ({ naive: figures }: Comparison): Comparison => ({ naive: figures, way: figures });
  const besideItself = { full: itself(beside.full), paced: itself(beside.paced) };
  return [{ way: naive, ...naiveAlone, paced: beside.paced.naive, beside: besideItself }, row];
}

async function measureRsa(way: Way, bits: KeyBits, { full, paced, again }: Loads): Promise<Row> {
  await measure(way, again);
  const before = await signingRate(bits, again.seconds);
  const row = { way, ...(await measure(way, full)) };
  const signing = (before + (await signingRate(bits, again.seconds))) / 2;
  const isFast = row.rate > 1.3 * paced.rate;
  return { ...row, signing, ...(isFast ? { paced: await measure(way, paced) } : {}) };
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
