import { setTimeout as wait } from 'node:timers/promises';
import { post } from './forwarding.ts';
import { Load, type LoadRequest } from './load.ts';
import type { Outage, OutageContext } from './outages.ts';
import type { Countersign } from './processes.ts';
import { balanceOf, statusOf } from './test-cluster.ts';

export const cached = Array.from({ length: 10 }, (_, index) => `cached-${index}`);
/** Seconds that Vault is away. */
export const outageSeconds = 2.5;
/** Milliseconds after the return within which a good response has to come for a run to go on. */
const pollTimeout = 10_000;
/** Milliseconds between requests of a login without a cached key, to each process. */
const pollInterval = 100;

/** What came of one outage. Times in seconds. */
export interface OutageResult {
  /** Requests of logins whose keys were cached. */
  readonly load: Load;
  /** From the return to the first response with the keys of a login that had none before, of the slower process. */
  readonly firstGoodRead: number;
  /** Responses to requests of that login while Vault was away, such as `503 key-source-unavailable`. */
  readonly uncachedDuring: readonly string[];
  /** Of all processes: the lines of each outage's beginning and end. */
  readonly begins: readonly (readonly Record<string, unknown>[])[];
  readonly ends: readonly (readonly Record<string, unknown>[])[];
  /** Reads of secrets while Vault was away, where it can count them then. */
  readonly readsDuring: number | undefined;
  /** In `secondsAfter` seconds after its return. */
  readonly readsAfter: number;
  readonly secondsAfter: number;
}

/**
 * Lets Vault be away for a while under constant load: of logins with cached keys, and of one without.
 *
 * @param uncached a login that has keys and was never asked for
 */
export async function runOutage(outage: Outage, place: OutageContext, uncached: string): Promise<OutageResult> {
  const { site, vault } = place;
  const logFrom = site.processes.map((one) => one.log().length);
  const load = new Load(waves(site.processes), 200);
  await wait(500);
  await outage.begin(place);
  const readsBefore = await vault.reads();
  const asking = site.processes.map((one) => new Poller(one, uncached));
  await wait(outageSeconds * 1000);
  const whileAway = asking.flatMap((one) => one.results);
  const readsWhileAway = difference(await vault.reads(), readsBefore);
  await outage.end(place);
  const returned = performance.now();
  const readsAtReturn = await vault.reads();
  const goodAt = await Promise.all(asking.map((one) => one.goodAt()));
  await wait(500);
  const secondsAfter = (performance.now() - returned) / 1000;
  const readsAfter = difference(await vault.reads(), readsAtReturn) ?? Number.NaN;
  await load.end();
  const linesOf = (message: string) =>
    site.processes.map((one, index) =>
      one
        .log()
        .slice(logFrom[index])
        .filter(({ msg }) => msg === message),
    );
  return {
    load,
    firstGoodRead: Math.max(0, ...goodAt.map((at) => (at - returned) / 1000)),
    uncachedDuring: [...new Set(whileAway)],
    begins: linesOf('key source unavailable'),
    ends: linesOf('key source available again'),
    readsDuring: readsWhileAway,
    readsAfter,
    secondsAfter,
  };
}

/** Every cached login once for each process: balances and statuses in turn. */
function waves(processes: readonly Countersign[]): () => LoadRequest[] {
  let count = 0;
  return () => {
    count += 1;
    const shot = count % 2 === 0 ? balanceOf : statusOf;
    return processes.flatMap((one) => cached.map((login) => shot(one, login)));
  };
}

function difference(later: number | undefined, earlier: number | undefined): number | undefined {
  return later === undefined || earlier === undefined ? undefined : later - earlier;
}

/** Asks one process for a login again and again, until it gets a good response. */
class Poller {
  /** Of the requests so far. */
  readonly results: string[] = [];
  readonly #good: Promise<number>;

  constructor(process: Countersign, login: string) {
    this.#good = this.#ask(balanceOf(process, login));
  }

  /** When it got the good response, on the clock `performance.now()`. @throws Error if that takes too long */
  goodAt(): Promise<number> {
    return Promise.race([
      this.#good,
      wait(pollTimeout, undefined, { ref: false }).then(() => {
        throw new Error(`no good response in ${pollTimeout} ms after the return: ${this.results.at(-1)}`);
      }),
    ]);
  }

  async #ask({ url, form }: LoadRequest): Promise<number> {
    for (;;) {
      const { status, body } = await post(url, form);
      this.results.push(status === 200 ? '200' : `${status} ${String(JSON.parse(body).reason)}`);
      if (status === 200) return performance.now();
      await wait(pollInterval);
    }
  }
}

/** Prints what came of outages, one line each. */
export function printOutages(title: string, results: readonly (readonly [Outage, OutageResult])[]): void {
  const head = [
    'outage',
    'sent',
    'failed',
    'slowest, ms',
    'good read after, s',
    'reads away',
    'reads after',
    'begin',
    'end',
  ];
  const rows = results.map(([{ name }, result]) => {
    const { load, firstGoodRead, readsDuring: readsWhileAway, readsAfter, secondsAfter, begins: beginnings, ends } = result;
    const good = load.results(/./)['200 answered'] ?? 0;
    const lines = (each: typeof ends) => each.map(({ length }) => length).join('+');
    return [
      name,
      load.hits.length,
      load.hits.length - good,
      Math.round(load.slowest),
      firstGoodRead.toFixed(2),
      readsWhileAway ?? '-',
      `${readsAfter} in ${secondsAfter.toFixed(1)} s`,
      lines(beginnings),
      lines(ends),
    ].map(String);
  });
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const text = all.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  const causes = results.map(([{ name }, { begins: beginnings }]) => {
    const cause = beginnings[0]?.[0]?.['cause'];
    return `${name}: ${typeof cause === 'string' ? cause : 'no outage'}`;
  });
  process.stdout.write(`\n${title}\n  ${[...text, '', ...causes].join('\n  ')}\n`);
}
