import { setTimeout as wait } from 'node:timers/promises';
import { Random } from '../support/random.ts';
import { check } from './check.ts';
import type { Instance } from './instance.ts';
import { KeptAliveCaller } from './kept-alive-caller.ts';
import type { RequestRecord } from './ledger.ts';
import { LoadBalancer } from './load-balancer.ts';
import { operations, orderIdOf, type RequestPlan } from './plan.ts';
import { boundsOf } from './run.ts';
import { type Setting, startSetting } from './setting.ts';
import type { Violation } from './violation.ts';

interface RollingOptions {
  readonly restarts: number;
  readonly seed: number;
  /** Callers at once, each with its own kept-alive connections. */
  readonly callers: number;
  /** Milliseconds. */
  readonly shutdownDelay: number;
  /** Milliseconds by which a response may be late. */
  readonly slack: number;
  /** Milliseconds. */
  readonly surplusWindow: number;
  /** Milliseconds before SIGTERM in which the balancer makes no new connections to the instance. */
  readonly preStop: number;
  readonly progress: (restarts: number, requests: number) => void;
}

export interface Rolling {
  readonly requests: readonly RequestRecord[];
  readonly violations: readonly Violation[];
  readonly restarts: number;
  readonly seconds: number;
}

/** Milliseconds between two readiness checks of the load balancer, as in Kubernetes. */
const checkEvery = 500;

/** Milliseconds; long, so that a busy machine is no reason for a request to fail. */
const requestTimeout = 15_000;

/** Two instances are restarted one after the other, while callers keep sending over kept-alive connections. */
export async function runRolling(options: RollingOptions): Promise<Rolling> {
  const startedAt = performance.now();
  const bounds = boundsOf(options, requestTimeout);
  const setting = await startSetting({ ...options, requestTimeout });
  const instances = [setting.instance('a', 'read'), setting.instance('b', 'read')];
  await Promise.all(instances.map((instance) => instance.start()));
  const balancer = new LoadBalancer(instances, checkEvery);
  try {
    const load = startLoad(options, balancer, setting);
    for (let count = 0; count < options.restarts; count += 1) {
      await restart(instances[count % instances.length]!, balancer, { ...options, stopBound: bounds.stop });
      options.progress(count + 1, setting.requests.length);
    }
    await load.stop();
    await Promise.all(instances.map((instance) => instance.stop(bounds.stop)));
    const seconds = (performance.now() - startedAt) / 1000;
    const violations = check(setting, bounds);
    return { requests: setting.requests, violations, restarts: options.restarts, seconds };
  } finally {
    balancer.close();
    await setting.close();
  }
}

/** As a rollout does it: the next instance only after this one has come back. */
async function restart(
  instance: Instance,
  balancer: LoadBalancer,
  { preStop, stopBound }: { readonly preStop: number; readonly stopBound: number },
): Promise<void> {
  if (preStop > 0) {
    balancer.exclude(instance);
    await wait(preStop);
  }
  await instance.stop(stopBound);
  await instance.start();
  if (instance.state !== 'up') throw new Error(`instance ${instance.options.name} did not start`);
  balancer.exclude(undefined);
  while (!balancer.includes(instance)) await wait(20);
  await wait(checkEvery);
}

function startLoad(
  { seed, callers }: RollingOptions,
  balancer: LoadBalancer,
  { recordOf }: Setting,
): { stop: () => Promise<void> } {
  let index = 0;
  const over = new AbortController();
  const work = async (caller: KeptAliveCaller): Promise<void> => {
    while (!over.signal.aborted) {
      const plan = planOf(seed, index);
      index += 1;
      const random = new Random(seed, 'pause', plan.index);
      // Otherwise all connections would end up at the instance that was not restarted last.
      if (random.chance(0.05)) caller.close();
      await caller.send(recordOf(plan));
      await wait(random.int(5, 60));
    }
    caller.close();
  };
  const done = Array.from({ length: callers }, () => work(new KeptAliveCaller(seed, balancer)));
  return {
    stop: async () => {
      over.abort();
      await Promise.all(done);
    },
  };
}

/** The gateway succeeds, sometimes slowly. */
function planOf(seed: number, index: number): RequestPlan {
  const random = new Random(seed, 'rolling', index);
  return {
    index,
    orderId: orderIdOf(seed, index),
    operation: random.pick(operations),
    site: 'plain',
    fault: random.chance(0.3) ? 'good-slow' : 'good',
    caller: 'keep-alive',
    session: 0,
    position: 0,
    padding: 0,
    chunked: false,
  };
}

/** Whether the caller did not get the gateway's response. */
export function hasFailed({ response }: RequestRecord): boolean {
  return response?.complete !== true || response.status !== 200 || response.outcome !== 'answered';
}
