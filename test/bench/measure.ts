import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Way } from './ways.ts';

/** The credential of the load; it protects nothing. */
export const token = 'bench-3f0c6a7d9e2b4815';
const script = fileURLToPath(new URL('wrk.lua', import.meta.url));

interface Load {
  readonly seconds: number;
  readonly connections: number;
  /** Requests/s of all connections together; as fast as possible if absent. */
  readonly rate?: number;
}

/** Latencies in ms, responses/s, CPU of the proxy in µs per request, its resident memory in MB. */
export type Measurement = Readonly<Record<'requests' | 'p50' | 'p99' | 'rate' | 'cpu' | 'memory', number>>;

/** @throws Error if a request failed */
export async function measure({ child, url, body }: Way, load: Load): Promise<Measurement> {
  const { seconds, connections, rate = Number.POSITIVE_INFINITY } = load;
  const options = ['-t1', `-c${connections}`, `-d${seconds}`, '--timeout=30', '-s', script];
  const args = ['-H', `Authorization: Bearer ${token}`, url, '--', body, String((1000 * connections) / rate)];
  const before = cpuOf(child.pid);
  const { stdout } = await promisify(execFile)('wrk', [...options, ...args]);
  const { errors, ...result } = JSON.parse(/^{.*$/m.exec(stdout)?.[0] ?? '');
  if (errors > 0) throw new Error(`${errors} of ${result.requests} requests to ${url} failed`);
  const cpu = ((cpuOf(child.pid) - before) * 1e6) / result.requests;
  return { ...result, cpu, memory: residentMemory(child.pid) };
}

/**
 * Sends so many requests, or as many as the way can in a minute. V8 compiles what is hot for tens of thousands of
 * requests, and a larger program for longer; meanwhile that costs more than the requests.
 */
export async function warmUp(way: Way, requests: number): Promise<void> {
  const end = performance.now() + 60_000;
  for (let sent = 0; sent < requests && performance.now() < end; )
    sent += (await measure(way, { seconds: 3, connections: 32 })).requests;
}

/** CPU seconds of a process: utime and stime in proc_pid_stat(5). */
function cpuOf(pid = 0): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

function residentMemory(pid = 0): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]) / 1000;
}
