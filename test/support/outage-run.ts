import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import { alertRulesIn } from './alert-expressions.ts';
import { type Countersign, sumOf } from './countersign.ts';
import { post } from './forwarding.ts';
import { Load, type LoadRequest } from './load.ts';
import type { Outage, OutageContext, Saying } from './outages.ts';
import { root } from './sources.ts';
import { balanceOf, statusOf } from './test-cluster.ts';

export const cached = Array.from({ length: 10 }, (_, index) => `cached-${index}`);
/** Seconds of the outage. */
const outageSeconds = 2.5;
/** Milliseconds after the recovery within which a successful response must arrive. */
const pollTimeout = 10_000;
/** Milliseconds after the recovery within which the log says that it is over. */
const endTimeout = 5000;
/** Milliseconds between requests for a login without a cached key, per process. */
const pollInterval = 100;

/** Result of one outage. Times in seconds. */
export interface OutageResult {
  /** Requests for logins with cached keys. */
  readonly load: Load;
  /** From the recovery to the first successful response for a login without cached keys; of the slower process. */
  readonly firstRead: number;
  /** The longest time after the recovery for which this process, which runs Vault and the gateway too, was blocked. */
  readonly stalled: number;
  /** Responses for that login during the outage, such as `503 key-source-unavailable`. */
  readonly uncachedDuring: readonly string[];
  /** What each process said at the end of the outage: `state` and `alerts` of {@link Saying}. */
  readonly said: readonly Pick<Saying, 'state' | 'alerts'>[];
  /** Log lines of the outage's beginning and end, by process. */
  readonly begins: readonly (readonly Record<string, unknown>[])[];
  readonly ends: readonly (readonly Record<string, unknown>[])[];
  /** Reads of secrets during the outage, if Vault can count them then. */
  readonly readsDuring: number | undefined;
  readonly secondsDuring: number;
  /** In the `secondsAfter` seconds after the recovery. */
  readonly readsAfter: number;
  readonly secondsAfter: number;
}

/**
 * Runs an outage under constant load for logins with cached keys, and for one without.
 *
 * @param uncached a login that has keys and was never requested
 */
export async function runOutage(
  outage: Outage,
  context: OutageContext,
  uncached: string,
): Promise<OutageResult> {
  const { cluster, vault } = context;
  const logFrom = cluster.processes.map((one) => one.logLines().length);
  const load = new Load(waves(cluster.processes), 200);
  await wait(500);
  await outage.begin(context);
  const readsBefore = await vault.reads();
  const beganAt = performance.now();
  const pollers = cluster.processes.map((one) => new Poller(one, uncached));
  await wait(outageSeconds * 1000);
  const responses = pollers.flatMap((one) => one.results);
  const said = await Promise.all(cluster.processes.map(saidNow));
  const readsDuring = difference(await vault.reads(), readsBefore);
  await outage.end(context);
  const recoveredAt = performance.now();
  const delays = monitorEventLoopDelay();
  delays.enable();
  const readsAtRecovery = await vault.reads();
  const firstSuccess = await Promise.all(pollers.map((one) => one.firstSuccess()));
  delays.disable();
  await wait(500);
  const linesOf = (message: string | undefined) =>
    cluster.processes.map((one, index) =>
      one
        .logLines()
        .slice(logFrom[index])
        .filter(({ msg }) => message !== undefined && msg === message),
    );
  const [beginning, end] = outage.says.lines ?? [];
  const isOver = () => end === undefined || linesOf(end).every(({ length }) => length > 0);
  while (!isOver() && performance.now() < recoveredAt + endTimeout) await wait(50);
  const secondsAfter = (performance.now() - recoveredAt) / 1000;
  const readsAfter = difference(await vault.reads(), readsAtRecovery) ?? Number.NaN;
  await load.end();
  return {
    load,
    firstRead: Math.max(0, ...firstSuccess.map((at) => (at - recoveredAt) / 1000)),
    stalled: delays.max / 1e9,
    uncachedDuring: [...new Set(responses)],
    said,
    begins: linesOf(beginning),
    ends: linesOf(end),
    readsDuring,
    secondsDuring: (recoveredAt - beganAt) / 1000,
    readsAfter,
    secondsAfter,
  };
}

/** A condition on one metric, as the rules have it, alone or after an `or`; not one that compares two. */
const condition = /^(?![^]*countersign_[^]*countersign_)[^]*\(countersign_(\w+)\) (==|>) (\d+)$/;
const conditions = alertRulesIn(`${root}/deploy/prometheus`).flatMap(({ alert, expr }) =>
  expr.split('\n  or\n').flatMap((part) => {
    const [, metric = '', operator, limit] = condition.exec(part) ?? [];
    return metric === '' ? [] : [{ alert, metric, operator, limit: Number(limit) }];
  }),
);

/** The state in the status, and the alerts whose condition holds. */
async function saidNow(one: Countersign): Promise<Pick<Saying, 'state' | 'alerts'>> {
  const { keySource } = await one.instanceStatus();
  const page = await one.metrics();
  const alerts = conditions.filter(({ metric, operator, limit }) => {
    const value = sumOf(page, metric);
    return value !== undefined && (operator === '==' ? value === limit : value > limit);
  });
  const aboutKeys = alerts.filter(({ metric }) => metric.startsWith('key_')).map(({ alert }) => alert);
  return { state: keySource.state ?? 'up', alerts: [...new Set(aboutKeys)] };
}

/** Every cached login once per process: balances and statuses in turn. */
function waves(processes: readonly Countersign[]): () => LoadRequest[] {
  let count = 0;
  return () => {
    count += 1;
    const request = count % 2 === 0 ? balanceOf : statusOf;
    return processes.flatMap((one) => cached.map((login) => request(one, login)));
  };
}

function difference(later: number | undefined, earlier: number | undefined): number | undefined {
  return later === undefined || earlier === undefined ? undefined : later - earlier;
}

/** Repeats a request for a login to one process until it succeeds. */
class Poller {
  /** Results of the requests so far. */
  readonly results: string[] = [];
  readonly #success: Promise<number>;

  constructor(process: Countersign, login: string) {
    this.#success = this.#poll(balanceOf(process, login));
  }

  /** When the request succeeded, as `performance.now()`. @throws Error if that takes too long */
  firstSuccess(): Promise<number> {
    return Promise.race([
      this.#success,
      wait(pollTimeout, undefined, { ref: false }).then(() => {
        throw new Error(`no good response in ${pollTimeout} ms after the recovery: ${this.results.at(-1)}`);
      }),
    ]);
  }

  async #poll({ url, form }: LoadRequest): Promise<number> {
    for (;;) {
      const { status, body } = await post(url, form);
      this.results.push(status === 200 ? '200' : `${status} ${String(JSON.parse(body).reason)}`);
      if (status === 200) return performance.now();
      await wait(pollInterval);
    }
  }
}
