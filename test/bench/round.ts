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
   * What was measured at the same time, for the ratio. RSA: signatures/s of the machine with nothing else to do, just
   * before and after. Otherwise: CPU of the naive app that got 500 requests/s too, in µs.
   */
  readonly reference?: number;
}

export interface Round {
  readonly rows: readonly Row[];
  /** Share of the CPU that other processes or the hypervisor used, 0 to 1. */
  readonly disturbance: number;
}

export async function measureRound(ways: readonly Way[], seconds: number): Promise<Round> {
  const full = { seconds, connections: 32 };
  const paced = { seconds, connections: 50, rate: 500 };
  const disturbance = watchOthers();
  const naive = ways.find(isNaive);
  const rsa = ways.find(({ name }) => name === 'Countersign, RSA 4096');
  if (naive === undefined || rsa?.proxy === undefined) throw new TypeError('a way is missing');
  const rows: Row[] = [];
  for (const way of ways) {
    if (way === naive) continue;
    if (typeof way.signature === 'number') {
      rows.push(await measureRsa(way, way.signature, full, paced));
      continue;
    }
    // Both in turn before both at once: a process that was idle for a minute has to warm up again.
    const [naiveRow, row] = [await measure(naive, full), await measure(way, full)];
    const [beside, atRate] = await Promise.all([measure(naive, paced), measure(way, paced)]);
    if (way.name === 'Countersign, HMAC')
      rows.push({ way: naive, ...naiveRow, paced: beside, reference: beside.cpu });
    rows.push({ way, ...row, paced: atRate, reference: beside.cpu });
  }
  const hmac = wayThrough('Countersign', 'HMAC', rsa.proxy);
  const [beside] = await Promise.all([measure(hmac, paced), measure(rsa, full)]);
  rows.push({ way: { ...hmac, name: 'Countersign, HMAC beside RSA 4096' }, paced: beside });
  return { rows, disturbance: disturbance() };
}

async function measureRsa(way: Way, bits: KeyBits, full: Load, paced: Load & { rate: number }): Promise<Row> {
  const before = await signingRate(bits, full.seconds / 2);
  const row = { way, ...(await measure(way, full)) };
  const reference = (before + (await signingRate(bits, full.seconds / 2))) / 2;
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
