import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runSession } from './callers.ts';
import { hasOpenssl, makeCertificates } from './certificates.ts';
import { check } from './check.ts';
import { deadlines, knowsShutdownDelay } from './configuration.ts';
import { Fleet } from './fleet.ts';
import { type FaultGateway, startFaultGateway } from './gateway.ts';
import { Instance } from './instance.ts';
import { type Ledger, newRecord, type ProcessRecord, type RequestRecord } from './ledger.ts';
import { type PlanOptions, type RequestPlan, sessionsOf } from './plan.ts';
import { fixedPorts } from './ports.ts';
import type { Run } from './report.ts';
import { Supervisor } from './supervisor.ts';
import type { Bounds } from './violation.ts';

export interface RunOptions extends Omit<PlanOptions, 'tls'> {
  /** Callers at once. */
  readonly concurrency: number;
  readonly signals: boolean;
  readonly hostile: boolean;
  /** Whether there are instances whose log is broken. */
  readonly brokenLogs: boolean;
  /** Milliseconds. */
  readonly shutdownDelay: number;
  readonly progress: (requests: number) => void;
}

/** Milliseconds that a caller waits; a pipeline of eight requests may take eight exchanges. */
const patience = 20_000;

/** Callers against instances against the gateway, until so many requests are over; then the check. */
export async function runFaults(options: RunOptions): Promise<Run> {
  const startedAt = performance.now();
  const folder = mkdtempSync(join(tmpdir(), 'countersign-faults-'));
  const tls = hasOpenssl();
  if (tls) makeCertificates(folder);
  const requests: RequestRecord[] = [];
  const processes: ProcessRecord[] = [];
  const recordOf = (index: number): RequestRecord | undefined => requests[index];
  const certificates = tls ? folder : undefined;
  const gateway = await startFaultGateway({ seed: options.seed, recordOf, certificates });
  const bounds = boundsOf(options);
  try {
    const fleet = await startFleet(options, folder, gateway, { recordOf, processes, tls });
    const supervisor = new Supervisor(fleet, { ...options, stopBound: bounds.stop });
    await runCallers({ ...options, tls }, fleet, requests);
    await supervisor.stop();
    const ledger: Ledger = { requests, processes };
    return {
      ledger,
      violations: check(ledger, bounds),
      actions: supervisor.actions,
      bounds,
      unreadable: gateway.unreadable(),
      seconds: (performance.now() - startedAt) / 1000,
    };
  } finally {
    await gateway.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** SIGTERM ends a process within the delay, a second for idle connections, the drain, and one more second. */
export function boundsOf({ shutdownDelay }: Pick<RunOptions, 'shutdownDelay'>): Bounds {
  const delay = knowsShutdownDelay() ? shutdownDelay + 1_000 : 0;
  const stop = delay + deadlines.drain + 1_000;
  return { exchange: deadlines.exchange, slack: deadlines.body + 4_000, stop, surplusWindow: 10 };
}

async function startFleet(
  options: RunOptions,
  folder: string,
  gateway: FaultGateway,
  given: { recordOf: (index: number) => RequestRecord | undefined; processes: ProcessRecord[]; tls: boolean },
): Promise<Fleet> {
  const ports = await fixedPorts(8);
  const instance = (name: string, log: ProcessRecord['log']): Instance => {
    const [port = 0, adminPort = 0] = ports.splice(0, 2);
    return new Instance({
      name,
      log,
      port,
      adminPort,
      folder: join(folder, name),
      urls: gateway.urls,
      caFile: given.tls ? join(folder, 'ca.crt') : undefined,
      shutdownDelay: options.shutdownDelay,
      recordOf: given.recordOf,
      processes: given.processes,
    });
  };
  const main = [instance('a', 'read'), instance('b', 'read')];
  const broken = options.brokenLogs ? [instance('full', 'full'), instance('stalled', 'stalled')] : [];
  await Promise.all(main.map((one) => one.start()));
  // A process that hangs at its start holds nobody up.
  for (const one of broken) void one.start();
  return new Fleet(main, broken);
}

async function runCallers(
  options: RunOptions & { readonly tls: boolean },
  fleet: Fleet,
  requests: RequestRecord[],
): Promise<void> {
  const sessions = sessionsOf(options);
  let done = 0;
  const recordOf = (plan: RequestPlan): RequestRecord => (requests[plan.index] ??= newRecord(plan));
  const work = async (): Promise<void> => {
    for (const session of sessions) {
      for (const plan of session.requests) recordOf(plan);
      const choose = fleet.choose.bind(fleet);
      await runSession(session, { seed: options.seed, patience, choose, recordOf });
      for (const plan of session.requests) fleet.observe(recordOf(plan));
      done += session.requests.length;
      options.progress(done);
    }
  };
  await Promise.all(Array.from({ length: options.concurrency }, work));
}
