import { isDeepStrictEqual } from 'node:util';
import type { KeysConfig } from '../config/schema.ts';
import { createDirectorySource } from '../keys/directory/source.ts';
import { SourceUnavailable } from '../keys/errors.ts';
import type { KeySource, KeySourceObserver } from '../keys/key-source.ts';
import type { LoginRef } from '../keys/login-ref.ts';
import { KeyReader } from '../keys/reader.ts';
import type { KeyRing, UsableKey } from '../keys/ring.ts';
import { KeySelector } from '../keys/selector.ts';
import { KeyTable, type Login } from '../keys/table.ts';
import type { VaultOptions } from '../keys/vault/source.ts';
import type { TlsMaterial } from '../net/tls-material.ts';
import type { EventObserver } from '../observability/events.ts';
import { createSteadyState } from '../observability/outages.ts';
import { type Secret, sameSecret } from '../secret.ts';
import { type MonotonicClock, setTimer } from '../util/clock.ts';
import type { Shared } from './shared.ts';

type KeysShared = Pick<Shared, 'clock' | 'monotonic' | 'random' | 'metrics' | 'decisions' | 'tlsPeers'>;

export type KeyServices = Awaited<ReturnType<typeof createKeyServices>>;

/** Logins that are read at the same time. */
const batch = 16;

/**
 * A key source, and what is known of its keys. Services whose `keys` have the same configuration share it. It begins to log
 * in; nothing is reported before `begin`.
 *
 * @param tls for Vault
 * @throws Error for a source that cannot be opened
 */
export async function createKeyServices(
  config: KeysConfig,
  tls: TlsMaterial,
  { clock, monotonic, random, metrics, decisions, tlsPeers }: KeysShared,
) {
  const { events, ...reports } = reportsTo(metrics, monotonic);
  const { cache, rotationGracePeriod } = config;
  const tlsObserver = tlsPeers.servers({ role: 'vault' });
  const source =
    config.source === 'directory'
      ? createDirectorySource({ directory: config.directory, rotationGracePeriod, now: clock })
      : await openVault(config, { clock, monotonic, random, events, tls, tlsObserver });
  const table = new KeyTable({ ...cache, rotationGracePeriod }, { clock, monotonic, random, events });
  const sourceName = config.source;
  const looked = decisions?.keysRefreshed;
  const reader = new KeyReader(source, table, { monotonic, setTimer, events, sourceName, looked });
  source.start();
  reader.start();
  return {
    config,
    source,
    table,
    reader,
    keySelector: new KeySelector({ table, reader, monotonic, setTimer, events: metrics }),
    /** Absent if the source has no keys that do not leave it. */
    signRemotely: source.sign,
    /**
     * Reads the logins that are in use with another source, before requests need them. The current key of each stays the
     * current one if this source has it too.
     *
     * @param environments those that are configured
     * @throws Error if the source does not respond, or one of them cannot be read
     */
    async readInUse(
      { table: before, config: replaced }: { readonly table: KeyTable; readonly config: KeysConfig },
      environments: readonly string[],
    ): Promise<void> {
      await source.check().catch(cannotBeUsed);
      events.keySourceUp(true);
      // The last used one is stored last: it is kept longest.
      const inUse = [...before.logins()]
        .filter((login) => before.isInUse(login) && environments.includes(login.ref.environment))
        .toReversed();
      const isSameStore = placeOf(config) === placeOf(replaced);
      const readRing = async (login: Login): Promise<void> => {
        const known: Known = isSameStore ? before.known(login.ref) : [];
        table.seed(login, ...(await ringOf(login.ref, known, source, monotonic)));
      };
      for (let first = 0; first < inUse.length; first += batch)
        await Promise.all(inUse.slice(first, first + batch).map(readRing));
    },
    /** Reports what has happened since the source was opened, and what will. @param previous reports no more */
    begin(previous?: { retire(): void }): void {
      if (previous !== undefined) {
        previous.retire();
        metrics.keySourceReplaced(config.source);
      }
      reports.begin();
    },
    /** Ends the reports. */
    retire(): void {
      table.retire();
      reports.end();
    },
    async stop(): Promise<void> {
      reader.stop();
      reports.end();
      await source.stop();
    },
  };
}

/** Loads the client of Vault only where keys are in Vault: a tenth of the CPU time of a start. */
async function openVault(
  config: Extract<KeysConfig, { source: 'vault' }>,
  options: VaultOptions,
): Promise<KeySource> {
  const { connectVault, createVaultSource } = await import('../keys/vault/source.ts');
  return createVaultSource(connectVault(config.vault, options), config.rotationGracePeriod, options);
}

function cannotBeUsed(error: unknown): never {
  throw new Error(`the new key source cannot be used: ${error instanceof Error ? error.message : 'unknown'}`);
}

/** Where secrets are. Versions of another place, and keys that only that has, mean nothing here. */
function placeOf(config: KeysConfig): string {
  if (config.source === 'directory') return JSON.stringify([config.directory]);
  const { address, namespace, mount, path } = config.vault;
  return JSON.stringify([address, namespace, mount, path]);
}

type Known = [ring?: KeyRing, accepted?: readonly UsableKey[]];

/** @param known of the same place. @throws Error that names the login */
async function ringOf(
  ref: LoginRef,
  known: Known,
  source: KeySource,
  monotonic: () => number,
): Promise<[ring: KeyRing, readAt: number]> {
  const readAt = monotonic();
  let problem = 'there are none';
  try {
    const reading = await source.read(ref, ...known);
    if (typeof reading !== 'string') return [reading.ring, readAt];
  } catch (error) {
    problem = error instanceof SourceUnavailable ? error.problem : 'unknown';
  }
  const name = `login "${ref.login}" in environment "${ref.environment}"`;
  throw new Error(`the keys of ${name}, which are in use, cannot be read from the new source: ${problem}`);
}

/** Reports the state of a source, and of its keys, while it is in use: from the beginning, but not before and not after. */
function reportsTo(metrics: EventObserver, monotonic: MonotonicClock['monotonic']) {
  let waiting: (() => void)[] = [];
  let state: 'opened' | 'in-use' | 'ended' = 'opened';
  const whileInUse = (report: () => void): void => {
    if (state === 'in-use') report();
    if (state === 'opened') waiting.push(report);
  };
  const steady = createSteadyState({
    monotonic,
    setTimer,
    report: (...facts) => whileInUse(() => metrics.keySourceUp(...facts)),
  });
  const events: EventObserver = {
    ...metrics,
    keyRingUpdated: (...facts) => whileInUse(() => metrics.keyRingUpdated(...facts)),
    loginsNotFound: (...facts) => whileInUse(() => metrics.loginsNotFound(...facts)),
    loginsDenied: (...facts) => whileInUse(() => metrics.loginsDenied(...facts)),
    cachedKeysExpire: (...facts) => whileInUse(() => metrics.cachedKeysExpire(...facts)),
    tokenExpiryChanged: (...facts) => whileInUse(() => metrics.tokenExpiryChanged(...facts)),
    keyProblem: (...facts) => whileInUse(() => metrics.keyProblem(...facts)),
    keySourceUp: (up, cause = 'unknown') => (up ? steady.responded() : steady.failed(cause)),
    loginFailed(problem) {
      whileInUse(() => metrics.loginFailed(problem));
      steady.failed(problem);
    },
  } satisfies KeySourceObserver;
  return {
    events,
    begin(): void {
      state = 'in-use';
      for (const report of waiting) report();
      waiting = [];
    },
    end(): void {
      state = 'ended';
      waiting = [];
    },
  };
}

/** A comparison by fields finds a secret in the same places of both, but cannot see into it. */
export function sameKeysConfig(a: KeysConfig, b: KeysConfig): boolean {
  const others = secretsIn(b);
  return (
    isDeepStrictEqual(a, b) &&
    secretsIn(a).every((secret, index) => sameSecret(secret, others[index] ?? secret))
  );
}

function secretsIn(keys: KeysConfig): Secret[] {
  if (keys.source === 'directory') return [];
  const { auth, egressProxy } = keys.vault;
  const token = auth.method === 'token' ? auth.token : undefined;
  return [token, egressProxy?.password].filter((secret) => secret !== undefined);
}
