import type { Hit } from '../support/load.ts';
import type { Row, Switch } from './rotation.ts';

/** Milliseconds after Vault has the key until requests succeed. */
const promised = 2_000;
/** Reads of Vault per second and instance: 30 looks, of two versions each. */
const maxReads = 60;
/** Milliseconds that a request may take between the choice of its key and the gateway. */
const inFlight = 500;
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
  readonly payments: number;
  readonly rejected: number;
  /** Payments with a 403 outside of a rotation, and of the time that is promised after it. */
  readonly latePayments: readonly string[];
  /** Results of payments that are neither good nor a rejection. */
  readonly otherPayments: readonly string[];
  readonly doubled: number;
}

/** What a run cost. */
export interface Result {
  readonly costs: readonly Cost[];
  readonly requestsPerSecond: number;
  /** Of Vault, by an instance in the second with the most. */
  readonly mostReads: number;
}

interface Evidence {
  readonly hits: readonly Hit[];
  /** Order IDs that the gateway accepted. */
  readonly transfers: readonly string[];
  /** How many transfers of a login the gateway got. */
  readonly received: (login: string) => number;
  /** The longest time in which a process gets no request of a login, milliseconds. */
  readonly pause: number;
}

export function costOf(row: Row, switches: readonly Switch[], evidence: Evidence): Cost {
  const { hits, transfers, received, pause } = evidence;
  const reads = hits.filter(({ name }) => name === `read ${row.login}`);
  const payments = hits.filter(({ name }) => name === `transfer ${row.login}`);
  const isRejected = ({ result }: Hit): boolean => rejection.test(result);
  const isFailed = ({ result }: Hit): boolean => !good.test(result);
  /** Those that were not under way while no key was both readable and accepted, or as long as promised after that. */
  const outside = (some: readonly Hit[], spans: readonly Switch[], more = 0): string[] =>
    some
      .filter(({ sentAt, took }) =>
        spans.every(({ gatewayAt, vaultAt }) => {
          const end = Math.max(gatewayAt, vaultAt) + promised + more;
          return sentAt + took < gatewayAt - inFlight || sentAt > end;
        }),
      )
      .map(
        ({ result, sentAt }) => `${result} at ${((sentAt - (hits[0]?.sentAt ?? 0)) / 1_000).toFixed(1)} s`,
      );
  // Where Vault was first, each instance had time to read the key.
  const hasty = switches.filter(({ vaultAt, gatewayAt }) => vaultAt >= gatewayAt - 1_000);
  const accepted = transfers.filter((id) => id.startsWith(`${row.login}-`));
  return {
    row,
    reads: reads.length,
    failedReads: outside(reads.filter(isFailed), hasty),
    payments: payments.length,
    rejected: payments.filter(isRejected).length,
    latePayments: outside(payments.filter(isRejected), switches, pause),
    otherPayments: outside(
      payments.filter((one) => isFailed(one) && !isRejected(one)),
      [],
    ),
    doubled: accepted.length - new Set(accepted).size + Math.max(0, received(row.login) - payments.length),
  };
}

/** The limits that a run broke. */
export function violationsOf({ costs, mostReads }: Pick<Result, 'costs' | 'mostReads'>): readonly string[] {
  const some = (what: string, hits: readonly string[]): string[] =>
    hits.length === 0 ? [] : [`${hits.length} ${what}: ${hits.slice(0, shown).join(', ')}`];
  const broken = costs.flatMap(({ row, failedReads, latePayments, otherPayments, doubled }) =>
    [
      ...some('reads failed', failedReads),
      ...some('payments were rejected too late', latePayments),
      ...some('payments failed', otherPayments),
      ...(doubled > 0 ? [`${doubled} payments were processed or sent twice`] : []),
    ].map((text) => `row ${row.number}: ${text}`),
  );
  return mostReads > maxReads
    ? [...broken, `an instance read Vault ${mostReads.toFixed(0)} times in a second`]
    : broken;
}
