import type { Hit } from '../support/load.ts';
import type { Span } from './disturb.ts';
import type { Row, Switch } from './rotation.ts';

/** Milliseconds after Vault has the key (or is back) until requests succeed. */
const promised = 2_000;
/** Reads of Vault per second and instance: 30 looks, of two versions each. */
const maxReads = 60;
/** Milliseconds that a request may take between the choice of its key and the gateway. */
const inFlight = 500;
/** Milliseconds after a disturbance in which reads of Vault are not only looks: those that fell due meanwhile. */
const afterwards = 4_000;

/** The requests that are named of those that broke a promise. */
const shown = 5;

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
  readonly rejected: number;
  /** Payments with a 403 outside of a rotation, and of the time that is promised after it. */
  readonly latePayments: readonly string[];
  /** Results of payments that are neither good nor a rejection. */
  readonly otherPayments: readonly string[];
  readonly doubled: number;
}

/** Of Vault, per second and instance. */
export interface Reads {
  readonly average: number;
  /** In the second with the most, but those right after a disturbance. */
  readonly most: number;
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
  /** Order IDs that the gateway accepted. */
  readonly transfers: readonly string[];
  /** How many transfers of a login the gateway got. */
  readonly received: (login: string) => number;
  readonly outages: readonly Span[];
  /** The longest time in which a process gets no request of a login, milliseconds. */
  readonly pause: number;
}

export function costOf(row: Row, switches: readonly Switch[], evidence: Evidence): Cost {
  const { hits, transfers, pause } = evidence;
  const reads = hits.filter(({ name }) => name === `read ${row.login}`);
  const payments = hits.filter(({ name }) => name === `transfer ${row.login}`);
  const spans = switches.map((one) => ({ ...one, ...spanOf(one, evidence) }));
  const failed = reads.filter(({ result }) => !good.test(result));
  const rejected = payments.filter(({ result }) => rejection.test(result));
  const late = spans.flatMap(({ gatewayAt, usableAt }, index) => {
    const end = spans[index + 1]?.beganAt ?? Number.POSITIVE_INFINITY;
    return failed
      .filter((hit) => rejection.test(hit.result) && hit.sentAt >= gatewayAt && hit.sentAt + hit.took < end)
      .map(({ sentAt }) => sentAt - usableAt);
  });
  // A process that starts during a rotation begins with the newest key.
  const paymentsFrom = ({ beganAt, gatewayAt }: Switch): number => (row.moment === '-' ? gatewayAt : beganAt);
  const accepted = transfers.filter((id) => id.startsWith(`${row.login}-`));
  const texts = (some: readonly Hit[]): string[] =>
    some.map(({ result, sentAt }) => `${result} ${((sentAt - (hits[0]?.sentAt ?? 0)) / 1_000).toFixed(1)} s`);
  const outside = (these: readonly Hit[], from: (span: (typeof spans)[number]) => number, more = 0): Hit[] =>
    these.filter(
      ({ sentAt, took }) =>
        !spans.some(
          (span) => sentAt + took >= from(span) - inFlight && sentAt <= span.usableAt + promised + more,
        ),
    );
  return {
    row,
    reads: reads.length,
    failedReads: texts(
      outside(failed, ({ hadTime, gatewayAt }) => (hadTime ? Number.POSITIVE_INFINITY : gatewayAt)),
    ),
    lateSeconds: Math.max(0, ...late) / 1_000,
    payments: payments.length,
    rejected: rejected.length,
    latePayments: texts(outside(rejected, paymentsFrom, pause)),
    otherPayments: texts(payments.filter(({ result }) => !rejection.test(result) && !good.test(result))),
    doubled:
      accepted.length - new Set(accepted).size + Math.max(0, evidence.received(row.login) - payments.length),
  };
}

/** When a key is both readable and accepted, and whether each instance had time to read it before the gateway changed. */
function spanOf({ beganAt, gatewayAt, vaultAt }: Switch, { outages, pause }: Evidence) {
  const usable = Math.max(gatewayAt, vaultAt);
  // An instance may have had no request or no time to read it before the outage.
  const outage = outages.find(({ from, to }) => from - pause - promised <= usable && usable <= to + promised);
  const hadTime = vaultAt < gatewayAt && gatewayAt - beganAt > 1_000 && outage === undefined;
  return { hadTime, usableAt: Math.max(usable, outage?.to ?? usable) };
}

/** The limits that a run broke. */
export function violationsOf({ costs, reads, failedProcesses }: Omit<Result, 'requestsPerSecond'>) {
  const broken = costs.flatMap(({ row, ...cost }) => {
    const some = (what: string, hits: readonly string[]): string[] =>
      hits.length === 0 ? [] : [`${hits.length} ${what}: ${hits.slice(0, shown).join(', ')}`];
    const { failedReads, latePayments, otherPayments, lateSeconds, doubled } = cost;
    return [
      ...some('reads failed', failedReads),
      ...(lateSeconds > promised / 1_000
        ? [`a read got 403 ${lateSeconds.toFixed(1)} s after Vault had the key`]
        : []),
      ...some('payments were rejected too late', latePayments),
      ...some('payments failed', otherPayments),
      ...(doubled > 0 ? [`${doubled} payments were processed or sent twice`] : []),
    ].map((text) => `row ${row.number}: ${text}`);
  });
  if (reads.most > maxReads) broken.push(`an instance read Vault ${reads.most.toFixed(0)} times in a second`);
  if (failedProcesses > 0) broken.push(`${failedProcesses} processes ended with an error`);
  return broken;
}

/** @param samples with the time of their end, and the reads per second until then */
export function readsOf(samples: readonly Sample[], disturbed: readonly Span[], instances: number): Reads {
  const isAfter = ({ at }: Sample): boolean =>
    disturbed.some(({ from, to }) => at >= from && at <= to + afterwards);
  const each = (some: readonly Sample[]): number[] => some.map(({ perSecond }) => perSecond / instances);
  return {
    average: each(samples).reduce((sum, reads) => sum + reads, 0) / samples.length,
    most: Math.max(0, ...each(samples.filter((one) => !isAfter(one)))),
  };
}
