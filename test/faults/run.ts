import { join } from 'node:path';
import { configFor } from '../support/config.ts';
import { Folder } from '../support/folder.ts';
import { noGateway, testKeys, writeKeys } from '../support/service.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { runSession } from './callers.ts';
import { type Bounds, check, type Violation } from './check.ts';
import { type FaultGateway, startFaultGateway } from './gateway.ts';
import { Instance } from './instance.ts';
import { type Ledger, newRecord, type ProcessRecord, type RequestRecord } from './ledger.ts';
import { indexOf, type RequestPlan, sessionsOf } from './plan.ts';
import { Rollout, Supervisor } from './supervisor.ts';

export interface FaultsOptions {
  readonly requests: number;
  readonly seed: number;
  /** Restarts of a rollout in place of faults and signals. */
  readonly rolling?: number | undefined;
}

export interface Run extends Ledger {
  readonly violations: readonly Violation[];
}

/** Milliseconds; short, so that the runs are. */
const timeouts = { connect: 300, body: 2_000 } as const;

/** Long in a rollout, so that a busy machine is no reason for a request to fail. */
const paceOf = (isCalm: boolean) =>
  isCalm
    ? { requestTimeout: 15_000, shutdownDelay: 1_000, callers: 24 }
    : { requestTimeout: 1_500, shutdownDelay: 300, callers: 128 };

/** Milliseconds for requests that are in flight when a process stops: time for the slowest of them. */
const drainOf = (requestTimeout: number): number => timeouts.body + requestTimeout + 2_500;

/** Sends requests through two instances, disturbs them, and checks what is on record then. */
export async function runFaults(options: FaultsOptions): Promise<Run> {
  const { seed, rolling } = options;
  const isCalm = rolling !== undefined;
  const { requestTimeout, shutdownDelay, callers } = paceOf(isCalm);
  const stop = shutdownDelay + drainOf(requestTimeout) + 2_000;
  const bounds: Bounds = { requestTimeout, slack: 15_000, stop, isCalm };
  const folder = new Folder();
  const requests: RequestRecord[] = [];
  const processes: ProcessRecord[] = [];
  const recordOf = (orderId: string): RequestRecord | undefined => requests[indexOf(orderId)];
  const ca = new Ca(folder.path, 'ca');
  const gateway = await startFaultGateway({ seed, recordOf, ca });
  for (const site of Object.keys(gateway.urls)) writeKeys(folder.at('keys'), site, 'acme', testKeys);
  const configOf = (revision: number): object =>
    configuration({ gateway, folder: folder.path, caFile: ca.file, isCalm, revision });
  const instances = ['a', 'b'].map(
    (name) => new Instance({ name, configOf, processes, recordOf, stopBound: stop }),
  );
  try {
    await Promise.all(instances.map((instance) => instance.start()));
    const disturbance = isCalm ? new Rollout(instances, rolling) : new Supervisor(instances, seed);
    const all = { requests: isCalm ? Number.POSITIVE_INFINITY : options.requests, seed, isCalm };
    const sessions = sessionsOf(all);
    if (disturbance instanceof Rollout) void disturbance.over.finally(() => sessions.return(undefined));
    const own = {
      // A pipeline has up to eight requests, one after the other.
      patience: 8 * requestTimeout + bounds.slack,
      choose: disturbance.choose.bind(disturbance),
      recordOf: (plan: RequestPlan) => (requests[plan.index] ??= newRecord(plan)),
    };
    const work = async (): Promise<void> => {
      for (const session of sessions) await runSession(session, own);
    };
    await Promise.all(Array.from({ length: callers }, work));
    if (disturbance instanceof Supervisor) await disturbance.stop();
    await Promise.all(instances.map((instance) => instance.stop()));
    return { requests, processes, violations: check({ requests, processes }, bounds) };
  } finally {
    for (const instance of instances) instance.kill();
    await gateway.close();
    folder.remove();
  }
}

interface Setting {
  readonly gateway: FaultGateway;
  readonly folder: string;
  readonly caFile: string;
  readonly isCalm: boolean;
  readonly revision: number;
}

function configuration({ gateway, folder, caFile, isCalm, revision }: Setting): object {
  const { requestTimeout, shutdownDelay } = paceOf(isCalm);
  const environments = Object.entries(gateway.urls).map(([site, baseUrl]) => {
    const environment = {
      baseUrl,
      product: 'gw',
      timeouts: { connect: `${timeouts.connect}ms`, request: `${requestTimeout}ms` },
      maxInFlight: 2_000,
      responseHeaders: [`X-Revision-${revision}`],
      ...(baseUrl.startsWith('https:') ? { caFile } : {}),
    };
    return [site, environment];
  });
  const [drain, body] = [`${drainOf(requestTimeout)}ms`, `${timeouts.body}ms`];
  return configFor(noGateway, {
    proxy: {
      port: 0,
      maxBodyBytes: 2_000_000,
      timeouts: { headers: body, body, shutdown: drain, shutdownDelay: `${shutdownDelay}ms` },
    },
    keys: { source: 'directory', directory: join(folder, 'keys') },
    // The order ID in the path of every operation, so that the first line of a request says whose it is.
    operations: { 'manager-balance': { path: '/api/v2/get-balance/manager/{login}/{endpoint}' } },
    environments: Object.fromEntries(environments),
    signing: { maxQueue: 2_000 },
  });
}
