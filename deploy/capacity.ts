import { z } from 'zod';

const positive = z.number().positive();

/** What was measured; CPU in milliseconds. */
export const measuredShape = z.strictObject({
  hmac: positive,
  rsa2048: positive,
  signature2048: positive,
  rsa4096: positive,
  signature4096: positive,
  handshake: positive,
  logLine: positive.describe('Bytes.'),
  login: positive.describe('Kilobytes.'),
});
export type Measured = Readonly<z.output<typeof measuredShape>>;

/** The rows of the page's first table. */
const measuredRows: readonly (readonly [key: keyof Measured, name: string])[] = [
  ['hmac', 'CPU of a request signed by HMAC-SHA1, ms'],
  ['rsa2048', 'CPU of a request signed by RSA-SHA256 with 2048 bits, ms'],
  ['signature2048', 'the signature in it, 2048 bits, ms'],
  ['rsa4096', 'CPU of a request signed by RSA-SHA256 with 4096 bits, ms'],
  ['signature4096', 'the signature in it, 4096 bits, ms'],
  ['handshake', 'CPU of a TLS connection of its own, as payments have, ms'],
  ['logLine', 'log line of a request, bytes'],
  ['login', 'memory of a login in the cache: control key and RSA key of 4096 bits, kB'],
];

export type KeyBits = 2048 | 4096;

/** What the sizing assumes; every value stands in the page as well. */
export const assumed = {
  /** Parts of the requests. */
  balances: 0.4,
  statuses: 0.5,
  payments: 0.1,
  /** Part of what an instance can do that it is asked to do at the busiest time. */
  load: 0.5,
  /** Seconds the gateway takes. */
  gateway: 0.3,
  /** Seconds between two readings of a key in use: keys.cache.fresh, less the jitter of up to a tenth. */
  fresh: 57,
  leastReplicas: 2,
  signingConcurrency: 3,
  maxInFlight: 500,
  /** Ports of Linux for connections outwards, and the seconds for which one rests afterwards. */
  ports: 28_232,
  rest: 60,
  callers: 10,
  /** Series of an instance with one environment before its first request, of an operation in use, of a login. */
  series: { start: 220, operation: 36, caller: 3, combination: 1, login: 12, logins: 1000 },
} as const;

/** Requests a second at the busiest time, and the logins that are in use then. */
export const sites = [
  { rate: 100, logins: 50 },
  { rate: 1000, logins: 500 },
  { rate: 10_000, logins: 2000 },
  { rate: 100_000, logins: 10_000 },
] as const;

export interface Site {
  readonly rate: number;
  readonly logins: number;
}

/** CPU milliseconds of the average request: on the one event loop, and on the threads that sign. */
export function costs(measured: Measured, bits: KeyBits): { loop: number; signing: number } {
  const signature = measured[`signature${bits}`];
  const signed = assumed.statuses + assumed.payments;
  return {
    loop:
      assumed.balances * measured.hmac +
      signed * (measured[`rsa${bits}`] - signature) +
      assumed.payments * measured.handshake,
    signing: signed * signature,
  };
}

/** Requests a second that one instance can do at its very most, by what ends first. */
export function limits(
  measured: Measured,
  bits: KeyBits,
): { loop: number; signing: number; inFlight: number } {
  const { loop, signing } = costs(measured, bits);
  return {
    loop: 1000 / loop,
    signing: (1000 * assumed.signingConcurrency) / signing,
    inFlight: assumed.maxInFlight / assumed.gateway,
  };
}

export function replicasFor(rate: number, measured: Measured, bits: KeyBits): number {
  const least = Math.min(...Object.values(limits(measured, bits)));
  return Math.max(assumed.leastReplicas, Math.ceil(rate / (least * assumed.load)));
}

/** Series of one instance with one environment and the three operations of {@link assumed}. */
export function seriesOf(logins: number): number {
  const { start, operation, caller, combination, login, logins: most } = assumed.series;
  const operations = 3;
  // Statuses and reasons that a caller meets with an operation: approved, a mistake of its own, a failure.
  const combinations = assumed.callers * operations * 3;
  return (
    start +
    operations * operation +
    assumed.callers * caller +
    combinations * combination +
    Math.min(logins, most) * login
  );
}

type Row = readonly [name: string, of: (site: Site) => string];

/** The sizing as Markdown: a row for each quantity, a column for each site. */
export function sizingTable(measured: Measured): string {
  const replicas = ({ rate }: Site): number => replicasFor(rate, measured, 4096);
  const { loop, signing } = costs(measured, 4096);
  const reads = (site: Site): number => Math.min(site.rate, (replicas(site) * site.logins) / assumed.fresh);
  const payments = ({ rate }: Site): number => rate * assumed.payments;
  const rows: readonly Row[] = [
    ['logins in use', ({ logins }) => whole(logins)],
    ['replicas, RSA with 4096 bits', (site) => whole(replicas(site))],
    ['replicas, RSA with 2048 bits', ({ rate }) => whole(replicasFor(rate, measured, 2048))],
    ['cores busy, all replicas', ({ rate }) => rounded((rate * (loop + signing)) / 1000)],
    [
      'CPU request of a pod, cores',
      (site) => rounded((site.rate * (loop + signing)) / 1000 / replicas(site) / assumed.load),
    ],
    ['memory of the keys in a pod, MB', ({ logins }) => rounded((logins * measured.login) / 1000)],
    ['Vault reads/s', (site) => rounded(reads(site))],
    ['gateway connections for reads', ({ rate }) => whole(rate * (1 - assumed.payments) * assumed.gateway)],
    ['gateway connections for payments', (site) => whole(payments(site) * assumed.gateway)],
    ['TLS handshakes/s with the gateway', (site) => whole(payments(site))],
    [
      'source addresses for payments, at least',
      (site) => whole(Math.ceil((payments(site) * assumed.rest) / assumed.ports)),
    ],
    ['Prometheus series', (site) => whole(replicas(site) * seriesOf(site.logins))],
    ['log, GB a day', ({ rate }) => rounded((rate * measured.logLine * 86_400) / 1e9)],
  ];
  return table(
    ['requests/s', ...sites.map(({ rate }) => whole(rate))],
    rows.map(([name, of]) => [name, ...sites.map(of)]),
  );
}

/** What ends first in one instance, as Markdown. */
export function limitsTable(measured: Measured): string {
  const [small, large] = [limits(measured, 2048), limits(measured, 4096)];
  return table(
    ['requests/s of one instance, at most', 'RSA with 2048 bits', 'RSA with 4096 bits'],
    [
      ['one event loop, full', whole(small.loop), whole(large.loop)],
      [`${assumed.signingConcurrency} signing threads, full`, whole(small.signing), whole(large.signing)],
      [
        `${assumed.maxInFlight} exchanges under way (maxInFlight)`,
        whole(small.inFlight),
        whole(large.inFlight),
      ],
    ],
  );
}

/** The measured values as Markdown, and what one core makes of them. */
export function measuredTable(measured: Measured): string {
  return table(
    ['measured', 'value', 'a core does, each second'],
    measuredRows.map(([key, name]) => {
      const perCore = name.endsWith(' ms') ? whole(1000 / measured[key]) : '';
      return [name, precise(measured[key]), perCore];
    }),
  );
}

/** @throws Error for a page whose first table lacks a value */
export function readMeasured(page: string): Measured {
  const cells = page.split('\n').map((line) => line.split('|').map((cell) => cell.trim()));
  const values = measuredRows.map(([key, name]) => {
    const value = Number(cells.find(([, first]) => first === name)?.[2]?.replaceAll(',', ''));
    if (!(value > 0)) throw new Error(`the page has no value for "${name}"`);
    return [key, value];
  });
  return measuredShape.parse(Object.fromEntries(values));
}

/** The page with these values as the measured ones; {@link computed} brings the other tables in line. */
export function withMeasured(page: string, measured: Measured): string {
  return between(page, 'measured', measuredTable(measured));
}

/** The page with its tables computed from the measured values that stand in it. */
export function computed(page: string): string {
  const measured = readMeasured(page);
  const tables = {
    measured: measuredTable(measured),
    limits: limitsTable(measured),
    sizing: sizingTable(measured),
  };
  return Object.entries(tables).reduce((text, [name, made]) => between(text, name, made), page);
}

/** @throws Error for a page without the markers */
export function between(page: string, name: string, content: string): string {
  const marked = new RegExp(`(<!-- ${name} -->\n)[^]*?(\n<!-- /${name} -->)`);
  if (!marked.test(page)) throw new Error(`the page has no markers for ${name}`);
  return page.replace(marked, (_all, start: string, end: string) => `${start}${content}${end}`);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const rule = head.map((_, at) => (at === 0 ? '---' : '--:'));
  return [head, rule, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function whole(value: number): string {
  return Math.round(value).toLocaleString('en');
}

/** The page is where it is read from again. */
function precise(value: number): string {
  return String(Number(value.toPrecision(3)));
}

/** Three digits are more than an estimate has. */
function rounded(value: number): string {
  return value >= 100 ? whole(value) : String(Number(value.toPrecision(value >= 10 ? 3 : 2)));
}
