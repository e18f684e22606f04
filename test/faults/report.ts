import { wasKilled, wasStopped } from './check-processes.ts';
import { crossedInWindow } from './check-truth.ts';
import { faultNames, faultRow, isWholeResponse, type Point } from './fault-table.ts';
import type { Ledger, ProcessRecord, RequestRecord } from './ledger.ts';
import { hasFailed, type Rolling } from './rolling.ts';
import { type Bounds, rules, type Violation } from './violation.ts';

export interface Run {
  readonly ledger: Ledger;
  readonly violations: readonly Violation[];
  readonly actions: ReadonlyMap<string, number>;
  readonly bounds: Bounds;
  /** What egress proxies did, how often. */
  readonly egress: ReadonlyMap<string, number>;
  /** Gateway connections without a readable order id. */
  readonly unreadable: number;
  readonly seconds: number;
}

const points: Readonly<Record<Point, string>> = {
  none: 'none: a whole response',
  connect: 'before the request',
  request: 'within the request',
  wait: 'between request and response',
  response: 'within the response',
  after: 'after the response',
};

/** How many violations of one kind are printed with their details. */
const shown = 3;

/** The result of a run in Markdown. */
export function report(run: Run): string {
  const { violations } = run;
  return [
    '| what | count |',
    '| --- | ---: |',
    ...rows(run).map(([name, value]) => `| ${name} | ${value} |`),
    ...rules.map((rule) => `| **${names[rule]}** | **${countOf(violations, rule)}** |`),
    ...rules.flatMap((rule) => details(violations.filter((one) => one.rule === rule))),
  ].join('\n');
}

const names = {
  doubled: 'doubled',
  lie: 'lies',
  crossed: 'crossed',
  lost: 'lost responses',
  unlogged: 'unlogged',
  late: 'late',
  process: 'processes that ended or stopped wrongly',
} as const;

function rows({ ledger, actions, bounds, egress, unreadable, seconds }: Run): [string, string | number][] {
  const { requests, processes } = ledger;
  const upstream = requests.flatMap(({ upstreamRequests }) => upstreamRequests);
  const inWindow = crossedInWindow(requests, bounds);
  return [
    ['requests', requests.length],
    ['seconds', Math.round(seconds)],
    ...count('operation', requests, ({ plan }) => plan.operation),
    ...count('caller', requests, ({ plan }) => plan.caller),
    ...Object.entries(points).map(([point, text]): [string, number] => [
      `planned fault ${text}`,
      requests.filter(({ plan }) => faultRow(plan.fault).point === point).length,
    ]),
    ...faultNames
      .filter((name) => !isWholeResponse(name))
      .map((name): [string, number] => [
        `fault: ${name}`,
        requests.filter(({ plan }) => plan.fault === name).length,
      ]),
    ['seen by the gateway', upstream.length],
    ['seen by the gateway as a second attempt', upstream.filter(({ attempt }) => attempt > 1).length],
    ['gateway connections without a readable order id', unreadable],
    [
      'on a connection with an earlier surplus response',
      upstream.filter((one) => one.surplus !== undefined).length,
    ],
    ...count('result', requests, (record) => resultOf(record, processOf(record, ledger))),
    ['crossed within the window that remains', inWindow.size],
    ...sorted(egress).map(([name, value]): [string, number] => [`egress proxy: ${name}`, value]),
    ...sorted(actions).map(([name, value]): [string, number] => [`sent: ${name}`, value]),
    ['processes', processes.length],
  ];
}

function count(
  label: string,
  requests: readonly RequestRecord[],
  keyOf: (record: RequestRecord) => string,
): [string, number][] {
  const counts = new Map<string, number>();
  for (const record of requests) {
    const key = keyOf(record);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return sorted(counts).map(([key, value]) => [`${label}: ${key}`, value]);
}

function sorted(counts: ReadonlyMap<string, number>): [string, number][] {
  return [...counts].sort(([one], [other]) => (one < other ? -1 : 1));
}

function processOf({ process }: RequestRecord, { processes }: Ledger): ProcessRecord | undefined {
  return process === undefined ? undefined : processes[process];
}

/** What happened to a request, from its caller's point of view. */
function resultOf(record: RequestRecord, process: ProcessRecord | undefined): string {
  const { response, abandoned, sent, behind } = record;
  if (response?.complete === true) return response.outcome ?? 'no outcome';
  if (response !== undefined) return 'response broke off';
  if (abandoned) return 'the caller left';
  if (sent === 'nothing') return 'not connected';
  if (process !== undefined && wasKilled(record, process)) return 'no response, SIGKILL';
  if (behind !== 'nothing') return `no response, behind a ${behind}`;
  return process !== undefined && wasStopped(record, process) ? 'no response, SIGTERM' : 'no response';
}

/** The result of a rolling restart in Markdown. */
export function reportRolling({ requests, violations, restarts, seconds }: Rolling): string {
  const failed = requests.filter(hasFailed);
  return [
    '| what | count |',
    '| --- | ---: |',
    `| restarts | ${restarts} |`,
    `| seconds | ${Math.round(seconds)} |`,
    `| requests | ${requests.length} |`,
    ...count('failed', failed, causeOf).map(([name, value]) => `| ${name} | ${value} |`),
    `| **failed requests** | **${failed.length}** |`,
    ...rules.map((rule) => `| **${names[rule]}** | **${countOf(violations, rule)}** |`),
    ...rules.flatMap((rule) => details(violations.filter((one) => one.rule === rule))),
  ].join('\n');
}

function causeOf({ response, ending }: RequestRecord): string {
  if (response === undefined) return String(ending);
  return `${response.status} ${response.outcome}${response.complete ? '' : ', broke off'}`;
}

function countOf(violations: readonly Violation[], rule: Violation['rule']): number {
  return violations.filter((one) => one.rule === rule).length;
}

/** Violations of one rule, grouped by kind: the number and the first ones. */
function details(violations: readonly Violation[]): string[] {
  const [first] = violations;
  if (first === undefined) return [];
  const kinds = Map.groupBy(violations, kindOf);
  const lines = [...kinds].flatMap(([kind, alike]) => [
    `- ${alike.length} times: ${kind}`,
    ...alike.slice(0, shown).map(({ subject, detail }) => `  - ${subject}: ${detail}`),
  ]);
  return ['', `${names[first.rule]}:`, '', ...lines];
}

/** The detail without its numbers, and the kind of caller. */
function kindOf({ detail, caller }: Violation): string {
  const text = detail
    .replaceAll(/o-\d+-\d+/g, 'an order')
    .replaceAll(/\d+/g, 'N')
    .slice(0, 160);
  return caller === undefined ? text : `${caller}: ${text}`;
}
