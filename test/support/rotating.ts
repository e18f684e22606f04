import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { Secret } from '../../src/secret.ts';
import type { Harness } from './harness.ts';
import { type ProxyOptions, type TestKeys, type TestProxy, writeKeys } from './service.ts';
import { noon, type TestSimulator } from './simulator.ts';
import { until } from './until.ts';

type BothKeys = Required<TestKeys>;

export function newKeys(controlKey: string): BothKeys {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { controlKey, privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }) };
}

export const oldKeys = newKeys('the old control key');
export const nextKeys = newKeys('the next control key');

/** A Countersign in front of the simulator; both have the old keys. */
export interface Rotating {
  readonly simulator: TestSimulator['simulator'];
  readonly proxy: TestProxy;
  /** From now on the gateway accepts only these; without keys it rejects everything. */
  readonly accept: (...keys: BothKeys[]) => void;
  /** From now on the source has these. */
  readonly putInSource: (keys: TestKeys) => void;
  /** Advances the clocks of proxy and gateway. */
  readonly pass: (milliseconds: number) => void;
}

export async function startRotating(starts: Harness, options: ProxyOptions = {}): Promise<Rotating> {
  let now = noon;
  const clock = (): number => now;
  const monotonic = (): number => now - noon;
  const { url, simulator } = await starts.simulator({
    clock,
    keys: new Map([['acme', gatewayKeysOf(oldKeys)]]),
  });
  const proxy = await starts.proxy({ gateway: url, clock, monotonic, keys: { acme: oldKeys }, ...options });
  return {
    simulator,
    proxy,
    accept: (...keys) => simulator.keys.set('acme', gatewayKeysOf(...keys)),
    putInSource: (keys) => writeKeys(proxy.keysFolder, 'sandbox', 'acme', keys),
    pass: (milliseconds) => {
      now += milliseconds;
    },
  };
}

const gatewayKeysOf = (...keys: BothKeys[]) => ({
  controlKeys: keys.map(({ controlKey }) => new Secret(controlKey)),
  publicKeys: keys.map(({ privateKey }) => createPublicKey(privateKey)),
});

/** `keys` with which every request makes the cache read the source in the background. */
export const alwaysLooking = ({ keysFolder }: TestProxy) =>
  ({ source: 'directory', directory: keysFolder, cache: { ttl: '0ms' } }) as const;

/** Sends one more request, which is signed with the cached keys; meanwhile the source is looked at. */
export async function untilKeysChange(
  proxy: TestProxy,
  send: () => Promise<unknown> = proxy.status,
): Promise<void> {
  const changes = (): number => proxy.logLines('keys updated').length;
  const before = changes();
  await send();
  await until(() => changes() > before);
}
