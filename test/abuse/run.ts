import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { markdown } from '../support/command.ts';
import type { Cost } from '../support/cpu-time.ts';
import { findProgram } from '../support/find-program.ts';
import { openProbe } from '../support/loop-probe.ts';
import { limitMemory, peakMemory } from '../support/memory-limit.ts';
import { root } from '../support/sources.ts';
import type { Order } from './attacker.ts';
import { startSetting } from './setting.ts';
import { type Seen, Victim } from './victim.ts';
import { type WayName, ways } from './ways.ts';

/** Bytes: the memory limit of the chart. */
const memoryLimit =
  Number.parseInt(
    parse(readFileSync(`${root}helm/countersign/values.yaml`, 'utf8')).resources.limits.memory,
    10,
  ) * 1_048_576;
/** Milliseconds. */
const limits = { p99: 250, loop: 50 };

interface Options {
  readonly seed: number;
  /** How long the attack lasts. */
  readonly seconds: number;
  /** Milliseconds by which a limit on time may be exceeded on a busy machine. */
  readonly slack: number;
  /** The beginning of a command line that runs on the attacker's core. */
  readonly onCore: readonly string[];
}

interface Phase extends Seen, Cost {}

export interface Result {
  readonly report: string;
  /** What was broken. */
  readonly broken: readonly string[];
}

/** Puts this process, and what it starts from now on, on the last core. @returns runs on the first one; nothing if that cannot be */
export function separateCores(): readonly string[] {
  const list = /Cpus_allowed_list:\s+(\S+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '';
  const [first = '', last = ''] = [/^\d+/, /\d+$/].map((end) => end.exec(list)?.[0]);
  if (findProgram('taskset') === undefined || first === last) return [];
  execFileSync('taskset', ['-a', '-p', '-c', last, String(process.pid)], { stdio: 'ignore' });
  return ['taskset', '-c', first];
}

/** Starts a process, attacks it in one way, and ends both. */
export async function runWay(way: WayName, options: Options): Promise<Result> {
  const { setting: special = {}, takesConnections } = ways[way];
  const { seconds, slack, seed } = options;
  const setting = await startSetting(special);
  const { target, process, close } = setting;
  const pid = process.child.pid ?? 0;
  const group = limitMemory(memoryLimit);
  group?.add(pid);
  const measure = await openProbe(process.stderr);
  const victim = new Victim(target, { slack, opens: takesConnections !== true });
  const phase = async (lasts: number): Promise<Phase> => {
    const cost = await measure(() => wait(lasts * 1_000));
    return { ...(await victim.phase()), ...cost, cpu: cost.cpu / lasts };
  };
  try {
    await victim.useLogins();
    // Compiling, and the first reads, are not what is measured.
    await phase(Math.min(2, seconds));
    const before = await phase(seconds / 2);
    const attack = await startAttack({ way, seed, target }, options.onCore);
    const during = await phase(seconds);
    const attacker = await attack.end();
    const after = await phase(seconds / 2);
    const memory = peakMemory(pid) ?? 0;
    return judge(way, { before, during, after, attacker, memory }, options);
  } catch (error) {
    const { exitCode, signalCode } = process.child;
    if (exitCode === null && signalCode === null) throw error;
    const broken = [`the process ended: ${signalCode ?? exitCode} ${process.stderr().slice(-300)}`];
    return { report: `## ${way}\n\n**BROKEN**: ${broken.join('')}\n`, broken };
  } finally {
    await victim.stop();
    await close();
    group?.remove();
  }
}

/** Resolves when the attacker is ready. */
async function startAttack(order: Order, onCore: readonly string[]) {
  const file = fileURLToPath(new URL('attacker.ts', import.meta.url));
  const [command, ...args] = [...onCore, process.execPath, file, JSON.stringify(order)];
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const printed = text(child.stdout);
  await once(child.stdout, 'data');
  return {
    /** @returns what it saw, how often */
    async end(): Promise<Record<string, number>> {
      child.kill('SIGTERM');
      return JSON.parse(await printed);
    },
  };
}

interface Measured {
  readonly before: Phase;
  readonly during: Phase;
  readonly after: Phase;
  readonly attacker: Readonly<Record<string, number>>;
  readonly memory: number;
}

const sum = (counts: Iterable<number>): number => [...counts].reduce((one, other) => one + other, 0);

/** Compares what was measured with the limits. */
function judge(way: WayName, measured: Measured, { slack }: Options): Result {
  const { before, during, after, attacker, memory } = measured;
  const rows: readonly (readonly [name: string, of: (phase: Phase) => number, limit: number])[] = [
    ['requests of the victim', ({ requests }) => requests, Number.POSITIVE_INFINITY],
    ['p50, ms', ({ p50 }) => p50, Number.POSITIVE_INFINITY],
    ['p99, ms', ({ p99 }) => p99, limits.p99 + slack],
    ['failures', ({ failures }) => sum(failures.values()), 0],
    ['delay of the event loop, ms', ({ hold }) => hold, limits.loop + slack],
    ['CPU, %', ({ cpu }) => cpu / 10, Number.POSITIVE_INFINITY],
  ];
  const above = rows
    .filter(([, of, limit]) => !(Math.max(of(during), of(after)) <= limit))
    .map(([name, of, limit]) => `${name}: ${Math.max(of(during), of(after)).toFixed(0)}, limit ${limit}`);
  const mebibytes = memory / 1_048_576;
  const broken = [
    ...above,
    ...(memory > memoryLimit ? [`memory: ${mebibytes.toFixed(0)} MiB`] : []),
    ...(sum(Object.values(attacker)) === 0 ? ['the attacker did nothing'] : []),
  ];
  const cells = rows.map(([name, of, limit]) => [
    name,
    ...[before, during, after].map((phase) => of(phase).toFixed(of(phase) < 10 ? 1 : 0)),
    Number.isFinite(limit) ? limit : '',
  ]);
  const seen = [...before.failures, ...during.failures, ...after.failures];
  const listed = (counts: readonly (readonly [string, number])[]): string =>
    counts.map(([event, count]) => `${count} x ${event}`).join(', ');
  const report = [
    `## ${way}: ${ways[way].title}`,
    markdown([['what', 'before', 'during', 'after', 'limit'], ...cells]),
    `memory: ${mebibytes.toFixed(0)} MiB; attacker saw: ${listed(Object.entries(attacker))}`,
    ...(seen.length > 0 ? [`victim saw: ${listed(seen)}`] : []),
    broken.length === 0 ? 'held' : `**BROKEN**: ${broken.join('; ')}`,
  ];
  return { report: `${report.join('\n\n')}\n`, broken };
}
