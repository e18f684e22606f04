import { setTimeout as wait } from 'node:timers/promises';
import type { FailingVault, Failure } from '../support/failing-vaults.ts';
import type { CountersignProcess } from '../support/process.ts';
import type { TestCluster, VaultAuth } from '../support/test-cluster.ts';
import type { Disturbance } from './rotation.ts';

/** Seconds from one disturbance to the next, and of an outage. */
export const [every, outage] = [15, 4];
/** Milliseconds until a process that gets no more requests has responded to those in flight. */
const drain = 500;

/** Whether Vault is away then. */
export const isOutage = (disturbance: Disturbance): boolean =>
  ['killed', 'hung', 'sealed'].includes(disturbance);

/** A time as of `performance.now()`. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

export interface Place {
  readonly cluster: TestCluster;
  readonly vault: FailingVault;
  readonly auth: VaultAuth;
  /** The processes that get requests. */
  readonly active: CountersignProcess[];
}

/** Disturbs at each multiple of {@link every} from now until the signal. @returns when that was; an outage as a whole */
export async function disturb(
  disturbance: Disturbance,
  place: Place,
  signal: AbortSignal,
): Promise<readonly Span[]> {
  const spans: Span[] = [];
  if (disturbance === 'none') return spans;
  const beganAt = performance.now();
  for (;;) {
    const period = every * 1_000;
    const untilNext = period - ((performance.now() - beganAt) % period);
    await wait(untilNext, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return spans;
    const from = performance.now();
    if (disturbance === 'sighup') for (const one of place.active) one.signal('SIGHUP');
    else if (disturbance === 'restart') await restartOldest(place);
    else await breakVault(place.vault.failures[disturbance]);
    spans.push({ from, to: performance.now() });
  }
}

/** As a Deployment does: the next process serves before the oldest one stops. */
async function restartOldest({ cluster, auth, active }: Place): Promise<void> {
  active.push(...(await cluster.startProcesses(1, auth)));
  const oldest = active.shift();
  await wait(drain);
  await oldest?.stop();
}

async function breakVault({ begin, end }: Failure): Promise<void> {
  await begin();
  await wait(outage * 1_000);
  await end();
}
