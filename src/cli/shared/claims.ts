import type { OnceConfig } from '../../config/schema.ts';
import { keyId } from '../../once/claim.ts';
import type { RedisStore } from '../../once/redis-store.ts';
import { StoreUnavailable } from '../../once/store.ts';
import { openRedis, readOnceKey } from '../../service/once.ts';
import { CliError } from './cli-error.ts';

/** For commands: connects once. To be closed. @throws Error if the key is unusable, or the store does not respond */
export async function openClaims(config: OnceConfig): Promise<RedisStore> {
  const key = await readOnceKey(config);
  const store = await openRedis(config, {
    ttl: config.ttl,
    keyId: keyId(key),
    monotonic: () => performance.now(),
    random: Math.random,
    report: () => {},
  });
  try {
    await store.info();
  } catch (error) {
    await store.close();
    throw error instanceof StoreUnavailable ? new CliError(error.problem) : error;
  }
  return store;
}

/**
 * How a server may lose claims, and with them the promise.
 *
 * @param info what `INFO` prints
 * @param appendfsync if it is known
 */
export function weaknessesIn(info: string, appendfsync = 'always'): string[] {
  const fields = new Map(info.split(/\r?\n/).map((line) => [line.split(':')[0], line.split(':')[1]]));
  const policy = fields.get('maxmemory_policy') ?? 'noeviction';
  const hasFile = fields.get('aof_enabled') !== '0';
  const lines: readonly (readonly [isSo: boolean, text: string])[] = [
    [policy !== 'noeviction', `it may evict claims (maxmemory-policy ${policy}): set noeviction`],
    [!hasFile, 'a restart forgets claims: set appendonly yes, and appendfsync always'],
    [
      hasFile && appendfsync !== 'always',
      `a crash of the host forgets the last claims (appendfsync ${appendfsync}): set always`,
    ],
    [
      Number(fields.get('connected_slaves') ?? 0) > 0,
      'it has replicas, and a failover forgets the last claims: replication is asynchronous',
    ],
    // One that takes writes (replica-read-only no).
    [fields.get('role') === 'slave', 'it is a replica, which loses what it takes: name the primary'],
  ];
  return lines.flatMap(([isSo, text]) => (isSo ? [text] : []));
}
