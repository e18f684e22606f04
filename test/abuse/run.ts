import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { z } from 'zod';
import { recordsIn } from '../support/audit.ts';
import { limitMemory } from '../support/memory-limit.ts';
import { Random } from '../support/random.ts';
import { root } from '../support/sources.ts';
import type { Order } from './attacker.ts';
import type { Cores } from './cores.ts';
import { measureGrowth } from './growth.ts';
import type { Options } from './options.ts';
import { ProcessWatch, type Usage } from './process-watch.ts';
import { type Setting, startSetting } from './setting.ts';
import { breach } from './target.ts';
import { type Seen, useLogins, Victim } from './victim.ts';
import { type WayName, ways } from './ways.ts';

export interface Phase extends Seen, Usage {}

export interface Result {
  readonly way: WayName;
  /** Before, during and after the attack; none if the process did not start. */
  readonly phases: readonly Phase[];
  /** What the attacker saw, as often as it did. */
  readonly attacker: Readonly<Record<string, number>>;
  /** What was broken. */
  readonly broken: readonly string[];
  /** What is above a limit that the network has to hold in this way. */
  readonly leftToNetwork: readonly string[];
}

const values = z.object({
  resources: z.object({ limits: z.object({ memory: z.string().regex(/^\d+Mi$/) }) }),
});
/** Bytes: the memory limit of the chart. */
export const memoryLimit =
  Number.parseInt(
    values.parse(parse(readFileSync(`${root}helm/countersign/values.yaml`, 'utf8'))).resources.limits.memory,
    10,
  ) * 1_048_576;
/** Milliseconds. */
export const limits = { p99: 250, loop: 50 } as const;
/** Records of rejected requests in a burst, and for each second after it. */
const rejections = { burst: 250, perSecond: 5 } as const;

/** Starts a process, attacks it in one way, and ends both. */
export async function runWay(way: WayName, options: Options, cores: Cores): Promise<Result> {
  const random = new Random(options.seed, way, 'setting');
  let setting: Setting;
  try {
    setting = await startSetting(ways[way].setting?.(random) ?? {}, options.program);
  } catch (error) {
    const problem = String(error).trimEnd().split('\n').at(-1) ?? '';
    const broken = [`the process did not start: ${problem.slice(0, 300)}`];
    return { way, phases: [], attacker: {}, broken, leftToNetwork: [] };
  }
  const { target, loginsUsed } = setting;
  if (loginsUsed) await useLogins(target);
  const group = limitMemory(memoryLimit);
  const { child, ended } = setting.process;
  const pid = child.pid ?? 0;
  group?.add(pid);
  const watch = new ProcessWatch(pid, setting.loopFile);
  const victim = new Victim(target, {
    stolen: () => watch.stolen(),
    slack: options.slack,
    opens: ways[way].takesConnections !== true,
  });
  const phases: Phase[] = [];
  const phase = async (seconds: number): Promise<void> => {
    await wait(seconds * 1_000);
    const [seen, usage] = await Promise.all([victim.phase(), watch.phase()]);
    phases.push({ ...seen, ...usage });
  };
  try {
    // Compiling, and the first reads, are not what is measured.
    await wait(Math.min(2, options.seconds) * 1_000);
    await Promise.all([victim.phase(), watch.phase()]);
    await phase(options.seconds / 2);
    const attack = await startAttack({ way, seed: options.seed, target }, cores);
    await phase(options.seconds);
    const attacker = await attack.end();
    await phase(options.seconds / 2);
    await victim.stop();
    const growth = hasEnded(setting) ? [] : await measureGrowth(way, setting, watch, options.seed);
    const result = { way, phases, attacker };
    return { ...result, ...brokenBy(result, setting, options, growth) };
  } finally {
    watch.stop();
    await victim.stop();
    await setting.close();
    await ended;
    group?.remove();
  }
}

interface Attacking {
  /** Ends the attacker. @returns what it saw */
  readonly end: () => Promise<Record<string, number>>;
}

/** Resolves when the attacker is ready. */
async function startAttack(order: Order, cores: Cores): Promise<Attacking> {
  const file = fileURLToPath(new URL('attacker.ts', import.meta.url));
  const [command, ...args] = [...cores.attacker, process.execPath, file, JSON.stringify(order)];
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const printed = text(child.stdout);
  await once(child.stdout, 'data');
  return {
    async end() {
      child.kill('SIGTERM');
      const counts: Record<string, number> = JSON.parse(await printed);
      return counts;
    },
  };
}

/** Compares a result with the limits. */
function brokenBy(
  { way, phases, attacker }: Omit<Result, 'broken' | 'leftToNetwork'>,
  setting: Setting,
  { seconds, slack }: Options,
  growth: readonly string[],
): Pick<Result, 'broken' | 'leftToNetwork'> {
  const broken: string[] = [];
  const leftToNetwork: string[] = [];
  const timely = ways[way].leftToNetwork === true ? leftToNetwork : broken;
  const limit = (name: string, value: number, most: number, to = broken): void => {
    if (!(value <= most)) to.push(`${name} is ${Math.round(value)}, limit ${most}`);
  };
  const [, ...attacked] = phases;
  const largest = (of: (phase: Phase) => number): number => Math.max(...attacked.map(of));
  limit(
    'p99 of the victim in ms',
    largest(({ ownP99 }) => ownP99),
    limits.p99 + slack,
    timely,
  );
  limit(
    'delay of the event loop in ms',
    largest(({ ownLoop }) => ownLoop),
    limits.loop + slack,
    timely,
  );
  limit('memory in MiB', largest(({ memory }) => memory) / 1_048_576, memoryLimit / 1_048_576);
  limit(
    'number of failures',
    largest(({ failures }) => sum(failures)),
    0,
    timely,
  );
  const { child, stderr } = setting.process;
  if (hasEnded(setting)) {
    broken.push(`the process ended: ${child.signalCode ?? child.exitCode} ${stderr().slice(-300)}`);
  }
  const through = Object.entries(attacker).filter(([event]) => event.startsWith(breach));
  for (const [event, count] of through) broken.push(`${event}, ${count} times`);
  if (sum(attacker) === 0) broken.push('the attacker did nothing');
  if (setting.auditDirectory !== undefined) {
    const rejected = recordsIn(setting.auditDirectory).filter(({ audit }) => audit === 'rejected').length;
    limit('records of rejected requests', rejected, rejections.burst + rejections.perSecond * seconds);
  }
  return { broken: [...broken, ...growth], leftToNetwork };
}

const hasEnded = ({ process: { child } }: Setting): boolean =>
  child.exitCode !== null || child.signalCode !== null;

export const sum = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((one, other) => one + other, 0);
