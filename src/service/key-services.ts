import { isDeepStrictEqual } from 'node:util';
import type { KeysConfig } from '../config/schema.ts';
import { createDirectorySource } from '../keys/directory/source.ts';
import {
  type KeySource,
  type KeySourceObserver,
  type SignRemotely,
  silentObserver,
} from '../keys/key-source.ts';
import { KeyReader } from '../keys/reader.ts';
import { KeySelector } from '../keys/selector.ts';
import { KeyTable } from '../keys/table.ts';
import { connectVault, createVaultSource, type VaultOptions } from '../keys/vault/source.ts';
import type { TlsMaterial } from '../net/tls-material.ts';
import type { DebugLog } from '../observability/debug-log.ts';
import type { EventObserver } from '../observability/events.ts';
import { createSteadyState } from '../observability/outages.ts';
import { type Secret, sameSecret } from '../secret.ts';
import { setTimer } from '../util/clock.ts';

interface KeyServicesOptions extends Omit<VaultOptions, 'events' | 'tls'> {
  readonly metrics: EventObserver;
  /** At log level `debug` only. */
  readonly decisions?: DebugLog | undefined;
}

/** The key source of one configuration, and what is known of its keys. */
export interface KeyServices {
  readonly config: KeysConfig;
  readonly source: KeySource;
  readonly table: KeyTable;
  readonly reader: KeyReader;
  readonly keySelector: KeySelector;
  readonly reports: SourceReports;
  /** Absent if the source has no keys that do not leave it. */
  readonly signRemotely: SignRemotely | undefined;
  /** @param next what replaces these services; it keeps running what it uses too */
  stop(next?: KeyServices): Promise<void>;
}

interface SourceReports {
  readonly events: EventObserver;
  /** A reload replaced the source: what it still does says nothing about the next one. */
  end(): void;
}

/**
 * Opens the key source. What is known of the logins is taken over from the previous services if the keys are in the same
 * place, and the source with its login to Vault if only other settings differ.
 *
 * @throws Error for a source that cannot be opened; the previous services are unchanged then
 */
export function createKeyServices(
  config: KeysConfig,
  tls: TlsMaterial,
  options: KeyServicesOptions,
  previous?: KeyServices,
): KeyServices {
  const { metrics, monotonic } = options;
  const before = previous !== undefined && sameStore(previous.config, config) ? previous : undefined;
  const keepsSource = before !== undefined && sameSource(before.config, config);
  if (keepsSource) before.source.useTls?.(tls);
  const reports = keepsSource ? before.reports : reportsTo(options);
  const { events } = reports;
  const source = keepsSource ? before.source : createKeySource(config, { ...options, events, tls });
  if (previous !== undefined && !keepsSource) metrics.keySourceReplaced(config.source, before !== undefined);
  const { cache, rotationGracePeriod } = config;
  const table = new KeyTable({ ...cache, rotationGracePeriod }, { ...options, events });
  if (before !== undefined) table.takeOver(before.table);
  const reader = new KeyReader(source, table, {
    monotonic,
    setTimer,
    events,
    sourceName: config.source,
    looked: options.decisions?.keysRefreshed,
  });
  if (!keepsSource) source.start();
  reader.start();
  return {
    config,
    source,
    table,
    reader,
    keySelector: new KeySelector({ table, reader, monotonic, setTimer, events }),
    reports,
    signRemotely: source.sign,
    async stop(next) {
      reader.stop();
      if (next !== undefined && !sameStore(config, next.config)) table.retire();
      if (next?.source === source) return;
      reports.end();
      await source.stop();
    },
  };
}

/** Creates the configured key source without starting it. */
function createKeySource(keys: KeysConfig, options: VaultOptions): KeySource {
  if (keys.source === 'directory') return createDirectorySource({ ...keys, now: options.clock });
  return createVaultSource(connectVault(keys.vault, options), keys.rotationGracePeriod, options);
}

function reportsTo({ metrics, monotonic }: KeyServicesOptions): SourceReports {
  let observer: KeySourceObserver = metrics;
  const report: KeySourceObserver['keySourceUp'] = (...facts) => observer.keySourceUp(...facts);
  const state = createSteadyState({ monotonic, setTimer, report });
  return {
    events: {
      ...metrics,
      keySourceUp: (up, cause = 'unknown') => (up ? state.responded() : state.failed(cause)),
      loginsDenied: (...facts) => observer.loginsDenied(...facts),
      loginFailed: (problem) => {
        observer.loginFailed(problem);
        state.failed(problem);
      },
      tokenExpiryChanged: (...facts) => observer.tokenExpiryChanged(...facts),
    },
    end() {
      observer = silentObserver;
    },
  };
}

/** Whether a login has the same secret in both. */
function sameStore(a: KeysConfig, b: KeysConfig): boolean {
  if (a.source === 'directory') return b.source === 'directory' && a.directory === b.directory;
  const placeOf = ({ address, namespace, mount, path, transit }: typeof a.vault) => [
    address,
    namespace,
    mount,
    path,
    transit?.mounts,
  ];
  return b.source === 'vault' && isDeepStrictEqual(placeOf(a.vault), placeOf(b.vault));
}

/** A comparison by fields finds a secret in the same places of both, but cannot see into it. */
function sameSource(a: KeysConfig, b: KeysConfig): boolean {
  const others = secretsIn(b);
  return (
    isDeepStrictEqual({ ...a, cache: b.cache }, b) &&
    secretsIn(a).every((secret, index) => sameSecret(secret, others[index] ?? secret))
  );
}

function secretsIn(keys: KeysConfig): Secret[] {
  if (keys.source === 'directory') return [];
  const { auth, egressProxy } = keys.vault;
  const token = auth.method === 'token' ? auth.token : undefined;
  return [token, egressProxy?.password].filter((secret) => secret !== undefined);
}
