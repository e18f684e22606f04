import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Way } from './ways.ts';

/** The credential of the load; it protects nothing. */
export const token = 'bench-3f0c6a7d9e2b4815';

export interface Load {
  readonly seconds: number;
  readonly connections: number;
  /** Requests/s of all connections together; as fast as possible if absent. */
  readonly rate?: number;
  /** Logins to go through. */
  readonly logins?: number;
}

/** Latencies in ms, responses/s, CPU of the proxy in µs per request, its resident memory in MB. */
export type Measurement = Readonly<Record<'requests' | 'p50' | 'p99' | 'rate' | 'cpu' | 'memory', number>>;

/** @throws Error if a request failed */
export async function measure({ child, url, body, load: own }: Way, usual: Load): Promise<Measurement> {
  const { seconds, connections, rate = Number.POSITIVE_INFINITY, logins = 1 } = { ...usual, ...own };
  const script = [
    '-s',
    fileURLToPath(new URL('wrk.lua', import.meta.url)),
    '-H',
    `Authorization: Bearer ${token}`,
  ];
  const options = ['-t1', `-c${connections}`, `-d${seconds}`, '--timeout=30', ...script, url];
  const pids = child?.pid === undefined ? [] : processTree(child.pid);
  const before = sum(pids.map(cpuOf));
  const args = ['--', body, String((1000 * connections) / rate), String(logins)];
  const { stdout } = await promisify(execFile)('wrk', [...options, ...args]);
  const { errors, ...result } = JSON.parse(/^{.*$/m.exec(stdout)?.[0] ?? '');
  if (errors > 0) throw new Error(`${errors} of ${result.requests} requests to ${url} failed`);
  const cpu = ((sum(pids.map(cpuOf)) - before) * 1e6) / result.requests;
  return { ...result, cpu, memory: sum(pids.map(residentMemory)) };
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

/** Gives the share of the CPU, 0 to 1, that other processes used or the hypervisor kept since it was called. */
export function watchOthers(): () => number {
  const [before, startedAt] = [foreignCpu(), performance.now()];
  return () => (foreignCpu() - before) / ((performance.now() - startedAt) / 1000) / cpus().length;
}

function foreignCpu(): number {
  // user, nice, system, idle, iowait, irq, softirq, steal in ticks: proc_stat(5)
  const ticks = readFileSync('/proc/stat', 'latin1').split(/\s+/, 9).slice(1).map(Number);
  return sum(ticks.toSpliced(3, 2)) / 100 - sum(processTree(process.pid).map(cpuOf));
}

/** A process and all that it has started and that still run, such as the workers of nginx. */
function processTree(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').match(/\d+/g) ?? [];
  return [pid, ...children.flatMap((child) => processTree(Number(child)))];
}

/** CPU seconds of a process and of its children that have ended: utime to cstime in proc_pid_stat(5). */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.split(' ') ?? [];
  return sum(fields.slice(11, 15).map(Number)) / 100;
}

function residentMemory(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]) / 1000;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
