import { type KeyObject, sign } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { promisify } from 'node:util';
import { privateKeyOf } from '../support/vectors.ts';
import { type Measurement, measure, watchOthers } from './measure.ts';
import { type Way, wayThrough } from './ways.ts';

export interface Row extends Partial<Measurement> {
  readonly way: Way;
  /**
   * At 500 requests/s, if the way is fast enough; the rest is with 32 connections that always wait for a response.
   * Ways without RSA are measured at the same time: what disturbs one disturbs all.
   */
  readonly paced?: Measurement;
}

export interface Round {
  readonly rows: readonly Row[];
  /** Signatures/s of the machine with nothing else to do. */
  readonly signing: Readonly<Record<2048 | 4096, number>>;
  /** Share of the CPU that other processes or the hypervisor used, 0 to 1. */
  readonly disturbance: number;
}

export async function measureRound(ways: readonly Way[], seconds: number): Promise<Round> {
  const full = { seconds, connections: 32 };
  const paced = { seconds, connections: 50, rate: 500 };
  const disturbance = watchOthers();
  const together = ways.filter(({ proxy, signature }) => proxy && typeof signature !== 'number');
  const measured = await Promise.all(together.map((way) => measure(way, paced)));
  const rows: Row[] = [];
  for (const way of ways) {
    const row = { way, ...(await measure(way, full)) };
    const isFast = row.rate > 1.3 * paced.rate;
    const alone = together.includes(way) || !isFast ? undefined : await measure(way, paced);
    const atRate = measured[together.indexOf(way)] ?? alone;
    rows.push(atRate === undefined ? row : { ...row, paced: atRate });
  }
  const rsa = ways.find(({ name }) => name === 'Countersign, RSA 4096');
  if (rsa?.proxy === undefined) throw new TypeError('Countersign is not among the ways');
  const hmac = wayThrough('Countersign', 'HMAC', rsa.proxy);
  const [beside] = await Promise.all([measure(hmac, paced), measure(rsa, full)]);
  rows.push({ way: { ...hmac, name: 'Countersign, HMAC beside RSA 4096' }, paced: beside });
  const signing = { 2048: await signingRate(2048, seconds), 4096: await signingRate(4096, seconds) };
  return { rows, signing, disturbance: disturbance() };
}

/** Signatures/s that `crypto.sign` makes on the four threads of libuv's pool. */
async function signingRate(bits: 2048 | 4096, seconds: number): Promise<number> {
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
