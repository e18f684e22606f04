import type { LogLine } from '../support/countersign.ts';
import type { Hit } from '../support/load.ts';
import type { Span } from './disturb.ts';
import type { Row, Switch } from './rotation.ts';

/** Milliseconds after Vault has the key (or is back) until reads succeed. */
const promised = 2_000;
/** Milliseconds of the steps in which payments find out whether a rejected key is accepted again. */
const probeSteps = [0, 2_000, 4_000, 8_000, 16_000, 30_000];
/** Looks at Vault per second and instance. */
const maxLooks = 30;
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
  /** Their results, and when that was. */
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
  readonly outages: readonly Span[];
  /** Processes at once. */
  readonly instances: number;
  /** The longest time in which a process gets no request of a login, milliseconds. */
  readonly pause: number;
  /** When the steps began again: at a reload, the return of Vault, or the start of a process. */
  readonly resets: readonly number[];
}

export function costOf(row: Row, switches: readonly Switch[], evidence: Evidence): Cost {
  const { hits, logs, instances, resets } = evidence;
  const reads = hits.filter(({ name }) => name === `read ${row.login}`);
  const payments = hits.filter(({ name }) => name === `transfer ${row.login}`);
  const excused = switches.map((one) => excusedIn(one, evidence));
  const failed = reads.filter((hit) => !isGood(hit));
  const startedAt = hits[0]?.sentAt ?? 0;
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
    failures: unexcused.map(
      ({ result, sentAt, took }) =>
        `${result} in ${took.toFixed(0)} ms, ${((sentAt - startedAt) / 1_000).toFixed(1)} s after the start`,
    ),
    lateSeconds: Math.max(0, ...late) / 1_000,
    payments: payments.length,
    rejectedPayments: count('403 answered'),
    knownRejected: logs.reduce((sum, lines) => sum + knownRejections(lines, row.login), 0),
    probesAllowed: instances * excused.reduce((sum, span, index) => sum + probesIn(span, resets, index), 0),
    notSent: count('503 key-rejected'),
    otherPayments: others.length,
    otherResults: [...new Set(others.map(({ result }) => result))],
    doubled: doubledIn(evidence.transfers.filter((id) => id.startsWith(`${row.login}-`))),
  };
}

type Judged = Pick<Result, 'costs' | 'reads' | 'failedProcesses'>;

/** The limits that a run broke. */
export function violationsOf(run: Judged): readonly string[] {
  const { costs, reads, failedProcesses } = run;
  return [
    costs.flatMap((cost) => brokenBy(cost).map((text) => `row ${cost.row.number}: ${text}`)),
    reads.most > maxLooks ? `an instance read Vault ${reads.most.toFixed(0)} times in a second` : [],
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

function isGood({ result }: Hit): boolean {
  return result === '200 answered';
}

function touches({ sentAt, took }: Hit, from: number, to: number): boolean {
  return sentAt + took >= from && sentAt <= to;
}

/** Transfers with a 403 that began after the process had received a 403 for the same version, and no acceptance since. */
function knownRejections(lines: readonly LogLine[], login: string): number {
  const firstAt = new Map<unknown, number>();
  let known = 0;
  for (const { operation, login: of, rejection, status, time, totalMs, keyVersion } of lines) {
    // Balances are signed with the other kind of key.
    if (of !== login || operation === 'manager-balance') continue;
    if (status === 200) firstAt.delete(keyVersion);
    if (rejection === undefined || status !== 403) continue;
    const endedAt = Date.parse(String(time));
    const first = firstAt.get(keyVersion) ?? endedAt;
    firstAt.set(keyVersion, first);
    if (operation === 'transfer' && endedAt - Number(totalMs) > first) known += 1;
  }
  return known;
}

/**
 * How many payments an instance may sign with a key known to be rejected: one per step, and one with each key when the
 * steps begin again.
 *
 * @param superseded keys that the gateway rejected before this rotation
 */
function probesIn({ from, to }: Span, resets: readonly number[], superseded: number): number {
  if (!Number.isFinite(from)) return 0;
  const begins = [from, ...resets.filter((at) => from < at && at < to)];
  return begins.reduce((sum, at, index) => {
    // At first, the key that this rotation supersedes is not known to be rejected. Later a step may move to the
    // other side, since an instance notices the return of Vault within 2 s.
    const atOnce = index === 0 ? superseded : superseded + 2;
    return sum + atOnce + stepsIn((begins[index + 1] ?? to) - at);
  }, 0);
}

function stepsIn(milliseconds: number): number {
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
