import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import { readAuditKey } from '../audit/key.ts';
import type { OnceConfig } from '../config/schema.ts';
import { hostOf } from '../config/url.ts';
import type { EventObserver } from '../observability/events.ts';
import type { Logger } from '../observability/logger.ts';
import { createOutageLog, createSteadyState } from '../observability/outages.ts';
import { keyId } from '../once/claim.ts';
import { MemoryStore } from '../once/memory-store.ts';
import type { RedisStore } from '../once/redis-store.ts';
import type { ClaimStore } from '../once/store.ts';
import { SendOnce } from '../proxy/outbound/send-once.ts';
import { type MonotonicClock, type Randomness, setTimer, type WallClock } from '../util/clock.ts';

interface OnceOptions extends WallClock, MonotonicClock, Randomness {
  readonly log: Pick<Logger, 'message'>;
  readonly metrics: Pick<EventObserver, 'claimMade' | 'claimStoreUp'>;
}

const messages = {
  failed: 'order IDs cannot be claimed; payments are not sent',
  recovered: 'order IDs can be claimed again',
};

/**
 * Opens the store of claims, once for a process: with another one, claims that live would be unknown.
 *
 * @throws Error for an unusable key
 */
export async function openOnce(config: OnceConfig, options: OnceOptions) {
  const { clock, monotonic, metrics, log } = options;
  const outage = createOutageLog({ log, monotonic, source: 'claims', messages });
  const steady = createSteadyState({
    monotonic,
    setTimer,
    report(up, cause) {
      metrics.claimStoreUp(up, cause);
      outage(up, cause);
    },
  });
  const key = await readOnceKey(config);
  const store = await openStore(config, key, options, (up, cause = 'unknown') =>
    up ? steady.responded() : steady.failed(cause),
  );
  const guard = new SendOnce({ store, key, clock, monotonic, metrics });
  return {
    guard,
    /** Resolves when claims of what was not sent are removed, or after a while. */
    async close(): Promise<void> {
      await guard.idle();
      await store.close();
    },
  };
}

/** For a store in memory, one that dies with it. @throws Error for an unusable one */
export async function readOnceKey({ keyFile }: OnceConfig): Promise<KeyObject> {
  return keyFile === undefined ? createSecretKey(randomBytes(32)) : (await readAuditKey(keyFile)).secret;
}

async function openStore(
  config: OnceConfig,
  key: KeyObject,
  { monotonic, random }: OnceOptions,
  report: (up: boolean, cause?: string) => void,
): Promise<ClaimStore> {
  const { ttl } = config;
  if (config.store === 'memory') {
    report(true);
    return new MemoryStore({ ttl, monotonic, report });
  }
  return openRedis(config, { ttl, monotonic, random, report, keyId: keyId(key) });
}

type RedisOptions = Omit<ConstructorParameters<typeof RedisStore>[0], 'server'>;

/** Resolves when it is connected, or could not be: then it tries again and again. */
export async function openRedis(config: OnceConfig, options: RedisOptions): Promise<RedisStore> {
  const { store: address, username, passwordFile, caFile, minVersion, timeout } = config;
  const url = new URL(address);
  const { RedisStore: Store } = await import('../once/redis-store.ts');
  const store = new Store({
    ...options,
    server: {
      host: hostOf(url),
      port: Number(url.port || '6379'),
      database: Number(url.pathname.slice(1) || '0'),
      tls: url.protocol === 'rediss:' ? { caFile, minVersion } : undefined,
      username,
      passwordFile,
      timeout,
    },
  });
  const { promise: opened, resolve } = Promise.withResolvers<void>();
  void store.stayConnected(resolve);
  await opened;
  return store;
}
