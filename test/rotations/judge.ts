import type { LogLine } from '../support/countersign.ts';
import type { Hit } from '../support/load.ts';
import type { Span } from './disturb.ts';
import type { Row, Switch } from './rotation.ts';

/** Milliseconds after Vault has the key (or is back) until reads succeed. */
const promised = 2_000;
/** Milliseconds of the steps in which payments find out whether a rejected key is accepted again. */
const probeSteps = [0, 2_000, 4_000, 8_000, 16_000, 30_000];
/** Milliseconds that a payment may take between the choice of its key and the gateway. */
const inFlight = 500;

/** Results of payments. */
const expected = ['200 answered', '403 answered', '503 key-rejected'];

/** What the rotations of one login cost. */
export interface Cost {
  readonly row: Row;
  readonly reads: number;
  /** Reads without a 200, though a key was readable and accepted for longer than promised. */
  readonly failedReads: number;
  /** Their results. */
  readonly failures: readonly string[];
  /** Seconds from when Vault had the key to the last 403 of a read. */
  readonly lateSeconds: number;
  readonly payments: number;
  readonly rejectedPayments: number;
  /** Of these, sent by a process that had received a 403 for the key. */
  readonly knownRejected: number;
  /** As many as there are steps while every key is rejected. */
  readonly probesAllowed: number;
  /** Payments with 503 `key-rejected`. */
  readonly notSent: number;
  /** Payments with another result, and these results. */
  readonly otherPayments: number;
  readonly otherResults: readonly string[];
  readonly doubled: number;
}

/** What a run cost. */
export interface Result {
  readonly costs: readonly Cost[];
  readonly requestsPerSecond: number;
  /** Of Vault, per instance: in the second with the most, and on average. */
  readonly mostReads: number;
  readonly averageReads: number;
  /** As many reads may be needed in a second: for looks, and for all keys by a process that starts. */
  readonly readsAllowed: number;
  /** Processes that ended with an error: they aborted requests. */
  readonly failedProcesses: number;
}

export interface Evidence {
  readonly hits: readonly Hit[];
  /** Of each process that ran. */
  readonly logs: readonly (readonly LogLine[])[];
  /** Order IDs that the gateway accepted. */
  readonly transfers: readonly string[];
  readonly outages: readonly Span[];
  /** Processes at once. */
  readonly instances: number;
  /** Milliseconds after which the steps begin again: a reload, or the next process. */
  readonly resetEvery: number;
}

export function costOf(row: Row, switches: readonly Switch[], evidence: Evidence): Cost {
  const { hits, logs, outages, instances } = evidence;
  const reads = hits.filter(({ name }) => name === `read ${row.login}`);
  const payments = hits.filter(({ name }) => name === `transfer ${row.login}`);
  const excused = switches.map((one) => excusedIn(one, outages));
  const failed = reads.filter((hit) => !isGood(hit));
  const unexcused = failed.filter((hit) => !excused.some(({ from, to }) => touches(hit, from, to)));
  const rejected = failed.filter(({ result }) => result.startsWith('403'));
  const late = excused.flatMap(({ from, usableAt }, index) => {
    const end = switches[index + 1]?.beganAt ?? Number.POSITIVE_INFINITY;
    return rejected
      .filter(({ sentAt, took }) => sentAt >= from && sentAt + took < end)
      .map(({ sentAt }) => sentAt - usableAt);
  });
  const count = (result: string): number => payments.filter((hit) => hit.result === result).length;
  const others = payments.filter(({ result }) => !expected.includes(result));
  return {
    row,
    reads: reads.length,
    failedReads: unexcused.length,
    failures: [...new Set(unexcused.map(({ result }) => result))],
    lateSeconds: Math.max(0, ...late) / 1_000,
    payments: payments.length,
    rejectedPayments: count('403 answered'),
    knownRejected: logs.reduce((sum, lines) => sum + knownRejections(lines, row.login), 0),
    probesAllowed:
      instances * excused.reduce((sum, { from, to }) => sum + stepsIn(to - from, evidence.resetEvery), 0),
    notSent: count('503 key-rejected'),
    otherPayments: others.length,
    otherResults: [...new Set(others.map(({ result }) => result))],
    doubled: doubledIn(evidence.transfers.filter((id) => id.startsWith(`${row.login}-`))),
  };
}

type Judged = Pick<Result, 'costs' | 'mostReads' | 'readsAllowed' | 'failedProcesses'>;

/** The limits that a run broke. */
export function violationsOf(run: Judged): readonly string[] {
  const { costs, mostReads, readsAllowed, failedProcesses } = run;
  return [
    costs.flatMap((cost) => brokenBy(cost).map((text) => `row ${cost.row.number}: ${text}`)),
    mostReads > readsAllowed
      ? `an instance read Vault ${mostReads.toFixed(0)} times in a second, ${readsAllowed.toFixed(0)} are allowed`
      : [],
    failedProcesses > 0 ? `${failedProcesses} processes ended with an error` : [],
  ].flat();
}

function brokenBy(cost: Cost): readonly string[] {
  const { failedReads, lateSeconds, knownRejected, probesAllowed, otherPayments, doubled } = cost;
  return [
    failedReads > 0 ? `${failedReads} reads failed: ${cost.failures.join(', ')}` : [],
    lateSeconds > promised / 1_000
      ? `a read got 403 ${lateSeconds.toFixed(1)} s after Vault had the key`
      : [],
    knownRejected > probesAllowed
      ? `${knownRejected} payments with a rejected key, ${probesAllowed} are allowed`
      : [],
    otherPayments > 0 ? `${otherPayments} payments failed: ${cost.otherResults.join(', ')}` : [],
    doubled > 0 ? `${doubled} payments were processed twice` : [],
  ].flat();
}

/** When reads may fail: while no key is both readable and accepted, and as long as promised after that. */
function excusedIn({ beganAt, gatewayAt, vaultAt }: Switch, outages: readonly Span[]) {
  const usable = Math.max(gatewayAt, vaultAt);
  // An instance may have had no time to read it before the outage.
  const outage = outages.find(({ from, to }) => from - promised <= usable && usable <= to + promised);
  const hadTime = vaultAt < gatewayAt && gatewayAt - beganAt > 1_000;
  if (hadTime && outage === undefined) {
    return { from: Number.POSITIVE_INFINITY, usableAt: gatewayAt, to: Number.POSITIVE_INFINITY };
  }
  const usableAt = Math.max(usable, outage?.to ?? usable);
  return { from: gatewayAt - inFlight, usableAt, to: usableAt + promised };
}

function isGood({ result }: Hit): boolean {
  return result === '200 answered';
}

function touches({ sentAt, took }: Hit, from: number, to: number): boolean {
  return sentAt + took >= from && sentAt <= to;
}

/** Transfers with a 403 that began after the process had received a 403 for the same version. */
function knownRejections(lines: readonly LogLine[], login: string): number {
  const firstAt = new Map<unknown, number>();
  let known = 0;
  for (const { operation, login: of, rejection, status, time, totalMs, keyVersion } of lines) {
    if (of !== login || rejection === undefined || status !== 403) continue;
    if (operation === 'manager-balance') continue;
    const endedAt = Date.parse(String(time));
    const first = firstAt.get(keyVersion) ?? endedAt;
    firstAt.set(keyVersion, first);
    if (operation === 'transfer' && endedAt - Number(totalMs) > first) known += 1;
  }
  return known;
}

/** How many steps begin within the time. @param resetEvery milliseconds after which the first one comes again */
function stepsIn(milliseconds: number, resetEvery: number): number {
  if (!Number.isFinite(milliseconds)) return 0;
  if (milliseconds > resetEvery)
    return stepsIn(resetEvery, Number.POSITIVE_INFINITY) + stepsIn(milliseconds - resetEvery, resetEvery);
  let [at, count] = [0, 0];
  for (;;) {
    at += probeSteps[count] ?? probeSteps.at(-1) ?? 0;
    if (at > milliseconds) return count;
    count += 1;
  }
}

function doubledIn(orders: readonly string[]): number {
  return orders.length - new Set(orders).size;
}
