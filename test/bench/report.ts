import { cpus } from 'node:os';
import type { KeyBits } from './proxies.ts';
import type { Round, Row } from './round.ts';

/** Rows by column as Markdown. */
export function table(rows: readonly Readonly<Record<string, string>>[]): string {
  const head = Object.keys(rows[0] ?? {});
  const rule = head.map((_, at) => (at === 0 ? '---' : '--:'));
  return [head, rule, ...rows.map(Object.values)].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** Three digits, or `-` for what was not measured. */
export function figure(value = Number.NaN): string {
  const maximumSignificantDigits = value < 1000 ? 3 : 4;
  return Number.isFinite(value) ? value.toLocaleString('en', { maximumSignificantDigits }) : '-';
}

export const percent = (share: number): string => `${Math.round(share * 100)} %`;

type Value = (round: Round) => number | undefined;

/** The median of the rounds that have the value; a disturbance of the machine hits some rounds, or parts of them. */
function median(rounds: readonly Round[], value: Value): number | undefined {
  const sorted = rounds
    .flatMap((round) => value(round) ?? [])
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  const [low, high] = [sorted[Math.floor(middle)], sorted[Math.ceil(middle)]];
  return low === undefined || high === undefined ? undefined : (low + high) / 2;
}

const inEach = (rounds: readonly Round[], value: Value): string =>
  rounds.map((round) => figure(value(round))).join(' ');

export function report(rounds: readonly Round[], seconds: number): string {
  const rows = rounds[0]?.rows.map(({ way }, at) => {
    const of = (value: (row: Row) => number | undefined): string =>
      figure(median(rounds, ({ rows }) => rows[at] && value(rows[at])));
    return {
      way: way.name,
      'requests/s': of(({ rate }) => rate),
      'CPU, µs': of(({ cpu }) => way.proxy && cpu),
      ratio: of(ratioOf),
      'in each round': inEach(rounds, ({ rows }) => ratioOf(rows[at])),
      'CPU at 500/s, µs': of(({ cpu, paced }) => way.proxy && cpu && paced?.cpu),
      'ratio at 500/s': of(pacedRatioOf),
      'in each': inEach(rounds, ({ rows }) => pacedRatioOf(rows[at])),
      'p50, p99, ms': `${of(({ p50 }) => p50)}, ${of(({ p99 }) => p99)}`,
      'at 500/s, ms': `${of(({ paced }) => paced?.p50)}, ${of(({ paced }) => paced?.p99)}`,
      'ratio of p99': of(tailRatioOf),
      'idle, MB': figure(way.proxy?.idleMemory),
      'loaded, MB': of(({ memory }) => way.proxy && memory),
      'start, s': figure(way.proxy?.startTime),
    };
  });
  const shares = rounds.map(({ disturbance }) => percent(Math.max(0, disturbance))).join(', ');
  const signing = (bits: KeyBits): string => {
    const value: Value = ({ rows }) => rows.find(({ way }) => way.signature === bits)?.signing;
    return `${figure(median(rounds, value))}/s with RSA ${bits} (in each round: ${inEach(rounds, value)})`;
  };
  const { openssl, node } = process.versions;
  return `${cpus().length} cores (${cpus()[0]?.model}), Node ${node}, OpenSSL ${openssl}; rounds: ${rounds.length}, ${seconds} s per
figure, at 500/s twice that. Other processes and the hypervisor used ${shares} of the CPU. With nothing else to do, the machine signs
${signing(2048)} and
${signing(4096)}.

${table(rows ?? [])}`;
}

/** RSA: requests/s to the signatures/s of the idle machine. Otherwise: CPU to that of the naive app. */
function ratioOf({ rate, signing, beside }: Partial<Row> = {}): number | undefined {
  if (beside !== undefined) return beside.full.way.cpu / beside.full.naive.cpu;
  return rate && signing && rate / signing;
}

function pacedRatioOf({ beside }: Partial<Row> = {}): number | undefined {
  return beside && beside.paced.way.cpu / beside.paced.naive.cpu;
}

function tailRatioOf({ beside }: Partial<Row> = {}): number | undefined {
  return beside && beside.paced.way.p99 / beside.paced.naive.p99;
}
