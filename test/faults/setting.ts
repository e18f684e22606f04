import { spawnSync } from 'node:child_process';
import { Folder } from '../support/folder.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { timeouts } from './configuration.ts';
import { type FaultyEgress, startFaultyEgress } from './egress.ts';
import { type FaultGateway, startFaultGateway } from './gateway.ts';
import { Instance } from './instance.ts';
import { newRecord, type ProcessRecord, type RequestRecord } from './ledger.ts';
import type { RequestPlan } from './plan.ts';
import { fixedPorts } from './ports.ts';

export interface SettingOptions {
  readonly seed: number;
  readonly egress?: boolean;
  /** Milliseconds. */
  readonly shutdownDelay: number;
  /** Milliseconds for a whole upstream request; short unless given. */
  readonly requestTimeout?: number;
}

/** The gateway, the ledger, and the means to create instances. */
export interface Setting {
  readonly gateway: FaultGateway;
  readonly tls: boolean;
  readonly egress: FaultyEgress | undefined;
  readonly requests: RequestRecord[];
  readonly processes: ProcessRecord[];
  readonly recordOf: (plan: RequestPlan) => RequestRecord;
  readonly instance: (name: string, log: ProcessRecord['log']) => Instance;
  /** Kills all processes and deletes their files. */
  readonly close: () => Promise<void>;
}

export async function startSetting({
  seed,
  egress: isBehindProxies = false,
  shutdownDelay,
  requestTimeout = timeouts.request,
}: SettingOptions): Promise<Setting> {
  const folder = new Folder();
  const hasOpenssl = spawnSync('openssl', ['version']).error === undefined;
  const ca = hasOpenssl ? new Ca(folder.path, 'ca') : undefined;
  const requests: RequestRecord[] = [];
  const processes: ProcessRecord[] = [];
  const recordAt = (index: number): RequestRecord | undefined => requests[index];
  if (isBehindProxies && ca === undefined) throw new TypeError('--egress needs the program openssl');
  const egress = isBehindProxies && ca !== undefined ? await startFaultyEgress(seed, ca) : undefined;
  const gateway = await startFaultGateway({ seed, recordOf: recordAt, ca, egress });
  const ports = await fixedPorts(8);
  const instances: Instance[] = [];
  return {
    gateway,
    tls: ca !== undefined,
    egress,
    requests,
    processes,
    recordOf: (plan) => (requests[plan.index] ??= newRecord(plan)),
    instance: (name, log) => {
      const [port = 0, adminPort = 0] = ports.splice(0, 2);
      const instance = new Instance({
        name,
        log,
        port,
        adminPort,
        folder: folder.at(name),
        urls: gateway.urls,
        caFile: ca?.file,
        egressUrls: egress?.urls ?? [],
        requestTimeout,
        shutdownDelay,
        recordOf: recordAt,
        processes,
      });
      instances.push(instance);
      return instance;
    },
    close: async () => {
      for (const instance of instances) instance.signal('SIGKILL');
      await Promise.all(instances.map(({ ended }) => ended));
      await Promise.all([gateway.close(), egress?.close()]);
      folder.remove();
    },
  };
}
