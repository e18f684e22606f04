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

/**
 * The round in which the machine signed most, since only what comes from one round can be compared. Other guests of its
 * host slow it down, which none of its counters shows.
 */
export function leastDisturbed(rounds: readonly Round[]): Round {
  return rounds.reduce((least, round) => (signing(round, 4096) > signing(least, 4096) ? round : least));
}

/** Signatures/s of the machine with nothing else to do; 0 if that was not measured. */
function signing({ rows }: Round, bits: KeyBits): number {
  return rows.find(({ way }) => way.signature === bits)?.reference ?? 0;
}

export function report(rounds: readonly Round[], seconds: number): string {
  const best = leastDisturbed(rounds);
  const rows = best.rows.map((row, at) => ({
    way: row.way.name,
    'requests/s': figure(row.rate),
    'CPU, µs': figure(row.way.proxy && row.cpu),
    'at 500/s': figure(row.way.proxy && row.cpu && row.paced?.cpu),
    ratio: figure(ratioOf(row)),
    'in each round': inEach(rounds, ({ rows }) => ratioOf(rows[at])),
    'p50, p99, ms': `${figure(row.p50)}, ${figure(row.p99)}`,
    'at 500/s, ms': `${figure(row.paced?.p50)}, ${figure(row.paced?.p99)}`,
    'idle, MB': figure(row.way.proxy?.idleMemory),
    'loaded, MB': figure(row.way.proxy && row.memory),
    'start, s': figure(row.way.proxy?.startTime),
  }));
  const shares = rounds.map(({ disturbance }) => percent(Math.max(0, disturbance))).join(', ');
  const { openssl, node } = process.versions;
  return `${cpus().length} cores (${cpus()[0]?.model}), Node ${node}, OpenSSL ${openssl}; rounds: ${rounds.length}, ${seconds} s per
figure. Other processes and the hypervisor used ${shares} of the CPU. With nothing else to do, the machine
signs ${figure(signing(best, 2048))}/s with RSA 2048 (in each round: ${inEach(rounds, (round) => signing(round, 2048))}) and ${figure(signing(best, 4096))}/s
with RSA 4096 (${inEach(rounds, (round) => signing(round, 4096))}).

${table(rows)}`;
}

const inEach = (rounds: readonly Round[], value: (round: Round) => number | undefined): string =>
  rounds.map((round) => figure(value(round))).join(' ');

const isRsa = ({ way }: Row): boolean => typeof way.signature === 'number';

/** RSA: requests/s to the signatures/s of the idle machine. Otherwise: CPU at 500/s to that of the naive app. */
function ratioOf(row: Row | undefined): number | undefined {
  if (row?.way.proxy === undefined || row.reference === undefined) return undefined;
  const value = isRsa(row) ? row.rate : row.paced?.cpu;
  return value && value / row.reference;
}

/** The ratios as bars, in SVG. */
export function chart(round: Round): string {
  const lines: string[] = [];
  const write = (x: number, text: string, style = ''): number =>
    lines.push(`<text x="${x}" y="${y + 14}" ${style}>${text}</text>`);
  let y = 8;
  for (const rsa of [false, true]) {
    const caption = rsa
      ? 'Requests/s. What the machine can sign is 1: more is better'
      : 'CPU per request at 500/s. The naive app is 1: less is better';
    write(250, caption, 'font-weight="600"');
    for (const row of round.rows.filter((row) => isRsa(row) === rsa)) {
      const ratio = ratioOf(row);
      if (ratio === undefined) continue;
      y += 24;
      const end = 250 + Math.round(ratio * 150);
      const fill = row.way.name.startsWith('Countersign') ? '#2a78d6' : '#98a2ae';
      write(240, row.way.name, 'text-anchor="end"');
      lines.push(`<path d="M250 ${y}H${end}v18H250" fill="${fill}"/>`);
      write(end + 6, ratio.toFixed(2));
    }
    y += 36;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" width="760" height="${y}" font-family="sans-serif" font-size="13">
<path d="M0 0h760v${y}H0" fill="#fff"/>
${lines.join('\n')}
</svg>
`;
}
