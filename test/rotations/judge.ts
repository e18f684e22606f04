import type { LogLine } from '../support/countersign.ts';
import type { Hit } from '../support/load.ts';
import type { Span } from './disturb.ts';
import type { Gateway } from './options.ts';
import type { Row, Switch } from './rotation.ts';

/** Milliseconds after Vault has the key (or is back) until reads succeed. */
const promised = 2_000;
/** Reads of Vault per second and instance: 30 looks, of two versions each. */
const maxReads = 60;
/** Milliseconds that a payment may take between the choice of its key and the gateway. */
const inFlight = 500;

/** Milliseconds until a look at Vault has ended. */
const look = 1_000;
/** Milliseconds from one try of another key to the next one, by how many there were. */
const stepAfter = (tries: number): number => Math.min(10_000, 1_000 * 2 ** tries);

/** What a response must be, unless it is a rejection. */
const goodReads: Partial<Record<Gateway, RegExp>> = {
  '4xx': /^404 answered$/,
  balancer: /^(200|302|404|429|503) answered$/,
};
const goodPayments: Partial<Record<Gateway, RegExp>> = { ...goodReads, '4xx': /^(200|422) answered$/ };
const good = /^200 answered$/;
const rejection = /^40[13] answered$/;

/** What the rotations of one login cost. */
export interface Cost {
  readonly row: Row;
  readonly reads: number;
  /** Reads without a 200, though a key was readable and accepted for longer than promised. */
  readonly failedReads: number;
  /** Their results, and when that was. */
  readonly failures: readonly string[];
  /** Seconds from when Vault had the key to the last 403 of a read. */
  readonly lateSeconds: number;
  readonly payments: number;
  /** Payments with 401 or 403. */
  readonly rejected: Rejected;
  /** Payments with another result, and these results. */
  readonly otherPayments: number;
  readonly otherResults: readonly string[];
  readonly doubled: number;
}

/** Payments with 401 or 403, by why they may have got it. */
export interface Rejected {
  /** Until Vault has a key that the gateway accepts. */
  readonly noKey: number;
  /** In the 2 s after that, or during the look of the process after its first one. */
  readonly late: number;
  /** The first of a process, caller and key, and those that were in flight then, or while another key was tried. */
  readonly notices: number;
  /** One per step, process and caller. */
  readonly steps: number;
  /** None of these: a broken promise. */
  readonly others: number;
}

/** Of Vault, per second and instance. */
export interface Reads {
  readonly average: number;
  /** In the second with the most. */
  readonly most: number;
  /** In those right after a disturbance: keys are read then that fell due meanwhile, or by a new process. */
  readonly mostAfter: number;
}

export interface Sample {
  readonly at: number;
  readonly perSecond: number;
}

/** What a run cost. */
export interface Result {
  readonly costs: readonly Cost[];
  readonly requestsPerSecond: number;
  readonly reads: Reads;
  /** Processes that ended with an error: they aborted requests. */
  readonly failedProcesses: number;
}

export interface Evidence {
  readonly hits: readonly Hit[];
  /** Of each process that ran. */
  readonly logs: readonly (readonly LogLine[])[];
  /** Order IDs that the gateway accepted. */
  readonly transfers: readonly string[];
  /** How many transfers of a login the gateway got. */
  readonly received: (login: string) => number;
  readonly outages: readonly Span[];
  /** Processes at once. */
  readonly instances: number;
  /** The longest time in which a process gets no request of a login, milliseconds. */
  readonly pause: number;
  /** When the steps began again: at a reload, the return of Vault, or the start of a process. */
  readonly resets: readonly number[];
}

export function costOf(row: Row, switches: readonly Switch[], evidence: Evidence): Cost {
  const { hits, logs, resets } = evidence;
  const reads = hits.filter(({ name }) => name === `read ${row.login}`);
  const payments = hits.filter(({ name }) => name === `transfer ${row.login}`);
  const excused = switches.map((one) => excusedIn(one, evidence));
  const failed = reads.filter(({ result }) => !(goodReads[row.gateway] ?? good).test(result));
  const startedAt = hits[0]?.sentAt ?? 0;
  const unexcused = failed.filter((hit) => !excused.some(({ from, to }) => touches(hit, from, to)));
  const rejected = failed.filter(({ result }) => rejection.test(result));
  const late = excused.flatMap(({ from, usableAt }, index) => {
    const end = switches[index + 1]?.beganAt ?? Number.POSITIVE_INFINITY;
    return rejected
      .filter(({ sentAt, took }) => sentAt >= from && sentAt + took < end)
      .map(({ sentAt }) => sentAt - usableAt);
  });
  const goodPayment = goodPayments[row.gateway] ?? good;
  const others = payments.filter(({ result }) => !goodPayment.test(result) && !rejection.test(result));
  const rejections = logs.map((lines) => rejectedIn(lines, row.login, excused, resets));
  return {
    row,
    reads: reads.length,
    failedReads: unexcused.length,
    failures: unexcused.map(
      ({ result, sentAt, took }) =>
        `${result} in ${took.toFixed(0)} ms, ${((sentAt - startedAt) / 1_000).toFixed(1)} s after the start`,
    ),
    lateSeconds: Math.max(0, ...late) / 1_000,
    payments: payments.length,
    rejected: {
      noKey: sum(rejections, 'noKey'),
      late: sum(rejections, 'late'),
      notices: sum(rejections, 'notices'),
      steps: sum(rejections, 'steps'),
      others: sum(rejections, 'others'),
    },
    otherPayments: others.length,
    otherResults: [...new Set(others.map(({ result }) => result))],
    doubled:
      doubledIn(evidence.transfers.filter((id) => id.startsWith(`${row.login}-`))) +
      Math.max(0, evidence.received(row.login) - payments.length),
  };
}

type Judged = Pick<Result, 'costs' | 'reads' | 'failedProcesses'>;

/** The limits that a run broke. */
export function violationsOf(run: Judged): readonly string[] {
  const { costs, reads, failedProcesses } = run;
  return [
    costs.flatMap((cost) => brokenBy(cost).map((text) => `row ${cost.row.number}: ${text}`)),
    reads.most > maxReads ? `an instance read Vault ${reads.most.toFixed(0)} times in a second` : [],
    failedProcesses > 0 ? `${failedProcesses} processes ended with an error` : [],
  ].flat();
}

function brokenBy(cost: Cost): readonly string[] {
  const { failedReads, lateSeconds, rejected, otherPayments, doubled } = cost;
  return [
    failedReads > 0 ? `${failedReads} reads failed: ${cost.failures.join(', ')}` : [],
    lateSeconds > promised / 1_000
      ? `a read got 403 ${lateSeconds.toFixed(1)} s after Vault had the key`
      : [],
    rejected.others > 0 ? `${rejected.others} payments were rejected once too often` : [],
    otherPayments > 0 ? `${otherPayments} payments failed: ${cost.otherResults.join(', ')}` : [],
    doubled > 0 ? `${doubled} payments were processed or sent twice` : [],
  ].flat();
}

/** Milliseconds after a disturbance in which reads of Vault are not only looks. */
const afterwards = 4_000;

/** @param samples with the time of their end, and the reads per second until then */
export function readsOf(samples: readonly Sample[], disturbed: readonly Span[], instances: number): Reads {
  const each = samples.map(({ at, perSecond }) => ({ at, reads: perSecond / instances }));
  const isAfter = ({ at }: { at: number }): boolean =>
    disturbed.some(({ from, to }) => at >= from && at <= to + afterwards);
  const most = (some: typeof each): number => Math.max(0, ...some.map(({ reads }) => reads));
  return {
    average: each.reduce((sum, { reads }) => sum + reads, 0) / each.length,
    most: most(each.filter((one) => !isAfter(one))),
    mostAfter: most(each.filter(isAfter)),
  };
}

type Excused = ReturnType<typeof excusedIn>;

/** When reads may fail: while no key is both readable and accepted, and as long as promised after that. */
function excusedIn({ beganAt, gatewayAt, vaultAt }: Switch, { outages, pause }: Evidence) {
  const usable = Math.max(gatewayAt, vaultAt);
  // An instance may have had no request or no time to read it before the outage.
  const outage = outages.find(({ from, to }) => from - pause - promised <= usable && usable <= to + promised);
  const hadTime = vaultAt < gatewayAt && gatewayAt - beganAt > 1_000;
  if (hadTime && outage === undefined) {
    return { from: Number.POSITIVE_INFINITY, usableAt: gatewayAt, to: Number.POSITIVE_INFINITY };
  }
  const usableAt = Math.max(usable, outage?.to ?? usable);
  return { from: gatewayAt - inFlight, usableAt, to: usableAt + promised };
}

function touches({ sentAt, took }: Hit, from: number, to: number): boolean {
  return sentAt + took >= from && sentAt <= to;
}

interface Payment {
  readonly caller: string;
  readonly version: string;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly isRejected: boolean;
}

/** The payments of a process, in the order of their ends. */
function paymentsIn(lines: readonly LogLine[], login: string): readonly Payment[] {
  return lines
    .filter(
      (line) => line.operation === 'transfer' && line.login === login && line.callerRequestId === undefined,
    )
    .map(({ caller, keyVersion: version, time, totalMs, status }) => {
      const endedAt = Date.parse(String(time)) - performance.timeOrigin;
      return {
        caller: String(caller),
        version: String(version),
        endedAt,
        startedAt: endedAt - Number(totalMs),
        isRejected: status === 401 || status === 403,
      };
    });
}

/** The rejected payments of a process. */
function rejectedIn(
  lines: readonly LogLine[],
  login: string,
  excused: readonly Excused[],
  resets: readonly number[],
): Rejected {
  const counts = { noKey: 0, late: 0, notices: 0, steps: 0, others: 0 };
  const payments = paymentsIn(lines, login);
  const noticed = new Map<string, number>();
  const steps = new Map<string, { at: number; tries: number }>();
  for (const payment of payments.filter(({ isRejected }) => isRejected)) {
    const { caller, version, startedAt, endedAt } = payment;
    const noticedAt = noticed.get(`${caller} ${version}`) ?? endedAt;
    noticed.set(`${caller} ${version}`, noticedAt);
    const span = excused.find(({ from, to }) => endedAt >= from && startedAt <= to);
    const step = steps.get(caller);
    const isReset = step !== undefined && resets.some((at) => step.at < at && at < startedAt);
    const tries = isReset ? 0 : (step?.tries ?? 0);
    const looks =
      startedAt <= noticedAt + look &&
      !payments.some((other) => wasTried(other, version, noticedAt, startedAt));
    if (span !== undefined) counts[startedAt > span.usableAt ? 'late' : 'noKey'] += 1;
    else if (startedAt > noticedAt && looks) counts.late += 1;
    else if (startedAt <= noticedAt || payments.some((other) => isTrialDuring(other, payment)))
      counts.notices += 1;
    else if (step === undefined || isReset || startedAt >= step.at + stepAfter(tries - 1)) {
      counts.steps += 1;
      steps.set(caller, { at: startedAt, tries: tries + 1 });
    } else counts.others += 1;
  }
  return counts;
}

/** Whether another key was tried when a payment began: only one may be in flight. */
function isTrialDuring(other: Payment, { version, startedAt }: Payment): boolean {
  return other.version !== version && other.startedAt <= startedAt && startedAt <= other.endedAt;
}

/** Whether another key was tried in this time. */
function wasTried(other: Payment, version: string, from: number, to: number): boolean {
  return other.version !== version && from <= other.startedAt && other.startedAt <= to;
}

function sum(rejections: readonly Rejected[], name: keyof Rejected): number {
  return rejections.reduce((total, one) => total + one[name], 0);
}

function doubledIn(orders: readonly string[]): number {
  return orders.length - new Set(orders).size;
}
