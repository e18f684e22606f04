import type { LogLine } from '../support/countersign.ts';
import type { Hit } from '../support/load.ts';
import type { Span } from './disturb.ts';
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

const good = /^200 answered$/;
const rejection = /^40[13] answered$/;

/** What the rotations of one login cost. */
export interface Cost {
  readonly row: Row;
  readonly reads: number;
  /** Reads without a 200, though a key was readable and accepted for longer than promised. */
  readonly failedReads: readonly string[];
  /** Seconds from when Vault had the key to the last 403 of a read. */
  readonly lateSeconds: number;
  readonly payments: number;
  readonly rejected: Rejected;
  /** Results of payments that are neither good nor a rejection. */
  readonly otherPayments: readonly string[];
  readonly doubled: number;
}

/** Payments with 401 or 403, by why they may have got it. */
export interface Rejected {
  /** Until Vault has a key that the gateway accepts. */
  noKey: number;
  /** In the 2 s after that, or during the look of the process after its first one. */
  late: number;
  /** The first of a process, caller and key, and those that were in flight then, or while another key was tried. */
  notices: number;
  /** One per step, process and caller. */
  steps: number;
  /** None of these: a broken promise. */
  others: number;
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
  /** The longest time in which a process gets no request of a login, milliseconds. */
  readonly pause: number;
  /** When the steps began again: at a reload, the return of Vault, or the start of a process. */
  readonly resets: readonly number[];
}

export function costOf(row: Row, switches: readonly Switch[], evidence: Evidence): Cost {
  const { hits, logs, resets, transfers } = evidence;
  const reads = hits.filter(({ name }) => name === `read ${row.login}`);
  const payments = hits.filter(({ name }) => name === `transfer ${row.login}`);
  const excused = switches.map((one) => excusedIn(one, evidence));
  const failed = reads.filter(({ result }) => !good.test(result));
  const isExcused = ({ sentAt, took }: Hit): boolean =>
    excused.some(({ from, to }) => sentAt + took >= from && sentAt <= to);
  const late = excused.flatMap(({ from, usableAt }, index) => {
    const end = switches[index + 1]?.beganAt ?? Number.POSITIVE_INFINITY;
    return failed
      .filter((hit) => rejection.test(hit.result) && hit.sentAt >= from && hit.sentAt + hit.took < end)
      .map(({ sentAt }) => sentAt - usableAt);
  });
  const rejected: Rejected = { noKey: 0, late: 0, notices: 0, steps: 0, others: 0 };
  for (const lines of logs) countRejected(rejected, paymentsIn(lines, row.login), excused, resets);
  const accepted = transfers.filter((id) => id.startsWith(`${row.login}-`));
  const startedAt = hits[0]?.sentAt ?? 0;
  return {
    row,
    reads: reads.length,
    failedReads: failed
      .filter((hit) => !isExcused(hit))
      .map(
        ({ result, sentAt }) => `${result} ${((sentAt - startedAt) / 1_000).toFixed(1)} s after the start`,
      ),
    lateSeconds: Math.max(0, ...late) / 1_000,
    payments: payments.length,
    rejected,
    otherPayments: payments
      .map(({ result }) => result)
      .filter((result) => !rejection.test(result) && !good.test(result)),
    doubled:
      accepted.length - new Set(accepted).size + Math.max(0, evidence.received(row.login) - payments.length),
  };
}

/** The limits that a run broke. */
export function violationsOf({
  costs,
  reads,
  failedProcesses,
}: Pick<Result, 'costs' | 'reads' | 'failedProcesses'>): readonly string[] {
  const limits = costs.flatMap(({ row, failedReads, lateSeconds, rejected, otherPayments, doubled }) => {
    const of = (text: string): string => `row ${row.number}: ${text}`;
    return [
      [failedReads.length, 0, of(`${failedReads.length} reads failed: ${failedReads.join(', ')}`)],
      [
        lateSeconds,
        promised / 1_000,
        of(`a read got 403 ${lateSeconds.toFixed(1)} s after Vault had the key`),
      ],
      [rejected.others, 0, of(`${rejected.others} payments were rejected once too often`)],
      [
        otherPayments.length,
        0,
        of(`${otherPayments.length} payments failed: ${[...new Set(otherPayments)].join(', ')}`),
      ],
      [doubled, 0, of(`${doubled} payments were processed or sent twice`)],
    ] as const;
  });
  const ofAll = [
    [reads.most, maxReads, `an instance read Vault ${reads.most.toFixed(0)} times in a second`],
    [failedProcesses, 0, `${failedProcesses} processes ended with an error`],
  ] as const;
  return [...limits, ...ofAll].filter(([value, most]) => value > most).map(([, , text]) => text);
}

/** Milliseconds after a disturbance in which reads of Vault are not only looks. */
const afterwards = 4_000;

/** @param samples with the time of their end, and the reads per second until then */
export function readsOf(samples: readonly Sample[], disturbed: readonly Span[], instances: number): Reads {
  const isAfter = ({ at }: Sample): boolean =>
    disturbed.some(({ from, to }) => at >= from && at <= to + afterwards);
  const each = (some: readonly Sample[]): number[] => some.map(({ perSecond }) => perSecond / instances);
  return {
    average: each(samples).reduce((sum, reads) => sum + reads, 0) / samples.length,
    most: Math.max(0, ...each(samples.filter((one) => !isAfter(one)))),
    mostAfter: Math.max(0, ...each(samples.filter(isAfter))),
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
    .filter((line) => line.operation === 'transfer' && line.login === login)
    .map(({ caller, keyVersion, time, totalMs, status }) => {
      const endedAt = Date.parse(String(time)) - performance.timeOrigin;
      const startedAt = endedAt - Number(totalMs);
      const isRejected = status === 401 || status === 403;
      return { caller: String(caller), version: String(keyVersion), endedAt, startedAt, isRejected };
    });
}

/** Adds the rejected payments of a process. */
function countRejected(
  counts: Rejected,
  payments: readonly Payment[],
  excused: readonly Excused[],
  resets: readonly number[],
): void {
  const noticed = new Map<string, number>();
  const steps = new Map<string, { at: number; tries: number }>();
  for (const { caller, version, startedAt, endedAt } of payments.filter(({ isRejected }) => isRejected)) {
    const noticedAt = noticed.get(`${caller} ${version}`) ?? endedAt;
    noticed.set(`${caller} ${version}`, noticedAt);
    const span = excused.find(({ from, to }) => endedAt >= from && startedAt <= to);
    const step = steps.get(caller);
    const isReset = step !== undefined && resets.some((at) => step.at < at && at < startedAt);
    const tries = isReset ? 0 : (step?.tries ?? 0);
    const others = payments.filter((other) => other.version !== version);
    const wasTried = others.some((other) => noticedAt <= other.startedAt && other.startedAt <= startedAt);
    // Only one trial of another key may be in flight.
    const isBesideTrial = others.some((other) => other.startedAt <= startedAt && startedAt <= other.endedAt);
    if (span !== undefined) counts[startedAt > span.usableAt ? 'late' : 'noKey'] += 1;
    else if (startedAt > noticedAt && startedAt <= noticedAt + look && !wasTried) counts.late += 1;
    else if (startedAt <= noticedAt || isBesideTrial) counts.notices += 1;
    else if (step === undefined || isReset || startedAt >= step.at + stepAfter(tries - 1)) {
      counts.steps += 1;
      steps.set(caller, { at: startedAt, tries: tries + 1 });
    } else counts.others += 1;
  }
}
