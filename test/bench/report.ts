import type { KeyBits } from './countersign.ts';
import { type Measurement, poolSize, type Round } from './round.ts';
import type { WayName } from './scenarios.ts';
import { median } from './statistics.ts';

const ways: readonly (readonly [name: WayName, title: string])[] = [
  ['direct', '(a) straight to the upstream'],
  ['bare', '(b) bare http-proxy-middleware'],
  ['hmac', '(c) Countersign, HMAC-SHA1'],
  ['rsa-2048', '(d) Countersign, RSA-SHA256, 2048 bits'],
  ['rsa-4096', '(d) Countersign, RSA-SHA256, 4096 bits'],
];

/** What is shown of each way, beside the ratio to (b). */
const columns: readonly (readonly [of: keyof Measurement, title: string, text: (value: number) => string])[] =
  [
    ['rate', 'requests/s', whole],
    ['cpu', 'CPU per request', milliseconds],
    ['p50', 'p50', milliseconds],
    ['p99', 'p99', milliseconds],
  ];

/** Of the CPU of (b) at most, and of the machine's own rate of signatures at least. */
const aims = { cpu: 1.5, signing: 0.85 };

/** The findings as Markdown. Values are medians over the rounds; ratios are medians of each round's ratio. */
export function report(rounds: readonly Round[], signing: number): string {
  return [
    table(
      ['way', ...columns.flatMap(([, title]) => [title, 'to (b)'])],
      ways.map(([name, title]) => [title, ...columns.flatMap((column) => wayCells(rounds, name, column))]),
    ),
    table(
      ['signatures/s', 'one core', `${signing} at once`, `${poolSize} at once`, 'Countersign', 'to own rate'],
      [
        ['HMAC-SHA1', whole(over(rounds, (round) => round.hmacCore)), '-', '-', '-', '-'],
        signingCells(rounds, 2048),
        signingCells(rounds, 4096),
      ],
    ),
    table(
      ['aim', 'measured', ''],
      [
        aimCells(`(c) takes at most ${aims.cpu} times the CPU of (b)`, cpuRatio(rounds), 'at most', aims.cpu),
        aimCells(
          `(d) with 4096 bits signs at ${aims.signing} of the machine's own rate`,
          signingRatio(rounds, 4096),
          'at least',
          aims.signing,
        ),
      ],
    ),
    `CPU per request of load generator and upstream together: ${ends(rounds)}.`,
  ].join('\n\n');
}

function wayCells(
  rounds: readonly Round[],
  name: WayName,
  [of, , text]: (typeof columns)[number],
): [value: string, ratio: string] {
  return [
    text(over(rounds, (round) => round.ways[name][of])),
    over(rounds, (round) => round.ways[name][of] / round.ways.bare[of]).toFixed(2),
  ];
}

function signingCells(rounds: readonly Round[], bits: KeyBits): string[] {
  return [
    `RSA-SHA256, ${bits} bits`,
    whole(over(rounds, (round) => round.signing[bits].core)),
    whole(over(rounds, (round) => round.signing[bits].limited)),
    whole(over(rounds, (round) => round.signing[bits].pool)),
    whole(over(rounds, (round) => round.ways[`rsa-${bits}`].rate)),
    signingRatio(rounds, bits).toFixed(2),
  ];
}

function aimCells(aim: string, measured: number, side: 'at most' | 'at least', bound: number): string[] {
  const met = side === 'at most' ? measured <= bound : measured >= bound;
  return [aim, measured.toFixed(2), met ? 'met' : 'missed'];
}

function cpuRatio(rounds: readonly Round[]): number {
  return over(rounds, ({ ways }) => ways.hmac.cpu / ways.bare.cpu);
}

/** The machine's own rate is the one with the whole pool at work and nothing else. */
function signingRatio(rounds: readonly Round[], bits: KeyBits): number {
  return over(rounds, ({ ways, signing }) => ways[`rsa-${bits}`].rate / signing[bits].pool);
}

function ends(rounds: readonly Round[]): string {
  return ways
    .map(([name, title]) => {
      const cpu = milliseconds(over(rounds, (round) => round.ways[name].cpuAround));
      return `${cpu} in ${title.slice(0, 3)}${name.startsWith('rsa') ? ` ${name.slice(4)}` : ''}`;
    })
    .join(', ');
}

function over(rounds: readonly Round[], value: (round: Round) => number): number {
  return median(rounds.map(value));
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const rule = head.map((_, index) => (index === 0 ? '---' : '--:'));
  return [head, rule, ...rows].map(line).join('\n');
}

function whole(value: number): string {
  return Math.round(value).toLocaleString('en');
}

function milliseconds(seconds: number): string {
  return `${(seconds * 1000).toFixed(seconds < 0.01 ? 3 : 1)} ms`;
}
