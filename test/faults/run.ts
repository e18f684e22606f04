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
import { indexOf, type PlanOptions, type RequestPlan, sessionsOf } from './plan.ts';
import { Supervisor } from './supervisor.ts';

export interface Run extends Ledger {
  readonly violations: readonly Violation[];
}

/** Milliseconds; short, so that the runs are. */
const timeouts = { connect: 300, body: 2_000, request: 1_500, shutdownDelay: 300 } as const;
/** For requests that are in flight when a process stops: time for the slowest of them. */
const drain = timeouts.body + timeouts.request + 2_500;
const bounds: Bounds = {
  requestTimeout: timeouts.request,
  slack: 15_000,
  stop: timeouts.shutdownDelay + drain + 2_000,
};
/** At the same time. */
const callers = 128;

/** Sends requests through two instances, disturbs them, and checks what is on record then. */
export async function runFaults(options: PlanOptions): Promise<Run> {
  const folder = new Folder();
  const requests: RequestRecord[] = [];
  const processes: ProcessRecord[] = [];
  const recordOf = (orderId: string): RequestRecord | undefined => requests[indexOf(orderId)];
  const ca = new Ca(folder.path, 'ca');
  const gateway = await startFaultGateway({ seed: options.seed, recordOf, ca });
  for (const site of Object.keys(gateway.urls)) writeKeys(folder.at('keys'), site, 'acme', testKeys);
  const configOf = (revision: number): object =>
    configuration({ gateway, folder: folder.path, caFile: ca.file, revision });
  const instances = ['a', 'b'].map(
    (name) => new Instance({ name, configOf, processes, recordOf, stopBound: bounds.stop }),
  );
  try {
    await Promise.all(instances.map((instance) => instance.start()));
    const supervisor = new Supervisor(instances, options.seed);
    const sessions = sessionsOf(options);
    const own = {
      // A pipeline has up to eight requests, one after the other.
      patience: 8 * bounds.requestTimeout + bounds.slack,
      choose: supervisor.choose.bind(supervisor),
      recordOf: (plan: RequestPlan) => (requests[plan.index] ??= newRecord(plan)),
    };
    const work = async (): Promise<void> => {
      for (const session of sessions) await runSession(session, own);
    };
    await Promise.all(Array.from({ length: callers }, work));
    await supervisor.stop();
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
  readonly revision: number;
}

function configuration({ gateway, folder, caFile, revision }: Setting): object {
  const environments = Object.entries(gateway.urls).map(([site, baseUrl]) => {
    const environment = {
      baseUrl,
      product: 'gw',
      timeouts: { connect: `${timeouts.connect}ms`, request: `${timeouts.request}ms` },
      maxInFlight: 2_000,
      responseHeaders: [`X-Revision-${revision}`],
      ...(baseUrl.startsWith('https:') ? { caFile } : {}),
    };
    return [site, environment];
  });
  const body = `${timeouts.body}ms`;
  return configFor(noGateway, {
    proxy: {
      port: 0,
      maxBodyBytes: 2_000_000,
      timeouts: {
        headers: body,
        body,
        shutdown: `${drain}ms`,
        shutdownDelay: `${timeouts.shutdownDelay}ms`,
      },
    },
    keys: { source: 'directory', directory: join(folder, 'keys') },
    // The order ID in the path of every operation, so that the first line of a request says whose it is.
    operations: { 'manager-balance': { path: '/api/v2/get-balance/manager/{login}/{endpoint}' } },
    environments: Object.fromEntries(environments),
    signing: { maxQueue: 2_000 },
  });
}
