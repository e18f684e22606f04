import { limits, memoryLimit, type Phase, type Result, sum } from './run.ts';
import { ways } from './ways.ts';

const mebibyte = 1_048_576;

const rows: readonly (readonly [name: string, value: (phase: Phase) => number, limit: number | string])[] = [
  ['requests of the victim', ({ requests }) => requests, ''],
  ['p50, ms', ({ p50 }) => p50, ''],
  ['p99, ms', ({ ownP99 }) => ownP99, limits.p99],
  ['failures', ({ failures }) => sum(failures), 0],
  ['delay of the event loop, ms', ({ ownLoop }) => ownLoop, limits.loop],
  ['p99 with what other programs took, ms', ({ p99 }) => p99, ''],
  ['the delay with that, ms', ({ loop }) => loop, ''],
  ['memory, MiB', ({ memory }) => memory / mebibyte, memoryLimit / mebibyte],
  ['CPU of the event loop, %', ({ cpu }) => cpu / 10, ''],
];

/** The result of one way in Markdown. */
export function report({ way, phases, attacker, broken, leftToNetwork }: Result): string {
  const rounded = (value: number): string =>
    value < 10 ? value.toFixed(1).replace('.0', '') : value.toFixed(0);
  const table = rows.map(
    ([name, value, limit]) =>
      `| ${[name, ...phases.map((phase) => rounded(value(phase))), limit].join(' | ')} |`,
  );
  const failures = phases.map(({ failures: seen }) => counts(seen)).filter((line) => line !== '');
  return [
    `## ${way}: ${ways[way].title}`,
    '',
    ...(phases.length === 0
      ? []
      : ['| what | before | during | after | limit |', '|---|---:|---:|---:|---:|', ...table, '']),
    `attacker saw: ${counts(attacker)}`,
    ...failures.map((line) => `victim saw: ${line}`),
    ...(leftToNetwork.length === 0 ? [] : [`left to the network: ${leftToNetwork.join('; ')}`]),
    broken.length === 0 ? 'held' : `**BROKEN**: ${broken.join('; ')}`,
    '',
  ].join('\n');
}

function counts(events: Readonly<Record<string, number>>): string {
  return Object.entries(events)
    .map(([event, count]) => `${count} x ${event}`)
    .join(', ');
}
