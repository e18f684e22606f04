import { runSession } from './callers.ts';
import { check } from './check.ts';
import { drainFor, knowsShutdownDelay, timeouts } from './configuration.ts';
import { Fleet } from './fleet.ts';
import { type PlanOptions, sessionsOf } from './plan.ts';
import type { Run } from './report.ts';
import { type Setting, startSetting } from './setting.ts';
import { Supervisor } from './supervisor.ts';
import type { Bounds } from './violation.ts';

interface RunOptions extends Omit<PlanOptions, 'tls'> {
  /** Callers at once. */
  readonly concurrency: number;
  /** Whether gateways are behind egress proxies. */
  readonly egress: boolean;
  readonly signals: boolean;
  readonly hostile: boolean;
  /** Whether there are instances whose log is broken. */
  readonly brokenLogs: boolean;
  /** Milliseconds. */
  readonly shutdownDelay: number;
  /** Milliseconds by which a response may be late on a busy machine. */
  readonly slack: number;
  /** Milliseconds; see {@link Bounds}. */
  readonly surplusWindow: number;
  readonly progress: (requests: number) => void;
}

/** Runs callers, instances and the gateway for a number of requests, and checks the ledger. */
export async function runFaults(options: RunOptions): Promise<Run> {
  const startedAt = performance.now();
  const setting = await startSetting(options);
  const bounds = boundsOf(options);
  try {
    const fleet = await startFleet(options, setting);
    const supervisor = new Supervisor(fleet, { ...options, stopBound: bounds.stop });
    await runCallers(options, fleet, setting);
    await supervisor.stop();
    return {
      ledger: setting,
      violations: check(setting, bounds),
      actions: supervisor.actions,
      bounds,
      unreadable: setting.gateway.unreadable(),
      egress: setting.egress?.counts ?? new Map(),
      seconds: (performance.now() - startedAt) / 1000,
    };
  } finally {
    await setting.close();
  }
}

/**
 * SIGTERM ends a process within the delay, a second for idle connections, the drain, and one more second.
 */
export function boundsOf(
  { shutdownDelay, slack, surplusWindow }: Pick<RunOptions, 'shutdownDelay' | 'slack' | 'surplusWindow'>,
  requestTimeout: number = timeouts.request,
): Bounds {
  const delay = knowsShutdownDelay() ? shutdownDelay + 1_000 : 0;
  const stop = delay + drainFor(requestTimeout) + 1_000;
  return { requestTimeout, slack: timeouts.body + slack, stop, surplusWindow };
}

/** Milliseconds that a caller waits; a pipeline has up to eight requests, one after the other. */
function patienceOf({ slack }: RunOptions): number {
  return timeouts.body + 8 * timeouts.request + slack;
}

async function startFleet({ brokenLogs }: RunOptions, { instance }: Setting): Promise<Fleet> {
  const main = [instance('a', 'read'), instance('b', 'read')];
  const broken = brokenLogs ? [instance('full', 'full'), instance('stalled', 'stalled')] : [];
  await Promise.all(main.map((one) => one.start()));
  // A process that hangs at its start does not delay the run.
  for (const one of broken) void one.start();
  return new Fleet(main, broken);
}

async function runCallers(options: RunOptions, fleet: Fleet, setting: Setting): Promise<void> {
  const { recordOf } = setting;
  const sessions = sessionsOf({ ...options, tls: setting.tls });
  const choose = fleet.choose.bind(fleet);
  let done = 0;
  const work = async (): Promise<void> => {
    for (const session of sessions) {
      const records = session.requests.map(recordOf);
      await runSession(session, { seed: options.seed, patience: patienceOf(options), choose, recordOf });
      for (const record of records) fleet.observe(record);
      done += records.length;
      options.progress(done);
    }
  };
  await Promise.all(Array.from({ length: options.concurrency }, work));
}
