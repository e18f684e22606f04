import { readFileSync } from 'node:fs';
import type { VaultConfig } from '../../config/schema.ts';
import type { Secret } from '../../secret.ts';
import type { TlsMaterial } from '../../tls/material.ts';
import type { WallClock } from '../../util/clock.ts';
import { type SetTimer, setTimer } from '../../util/timer.ts';
import { authMethod } from './auth-methods.ts';
import { type VaultClientOptions, vaultClient } from './client.ts';
import { KvStore } from './kv2.ts';
import { kvPaths } from './paths.ts';
import { TokenManager, type TokenManagerObserver } from './token-manager.ts';

export interface VaultOptions extends VaultClientOptions, WallClock {
  readonly events: TokenManagerObserver;
  /** Content of `caFile`, `certFile` and `keyFile`; read from the files unless given. */
  readonly tls?: TlsMaterial;
  /** The process's timers unless given. */
  readonly setTimer?: SetTimer;
}

/**
 * A connection to Vault: its secrets, and the token for them. Sends nothing before `tokens.start` or `withToken`.
 *
 * @throws TypeError for an ambiguous path template
 * @throws Error if a certificate file cannot be read
 */
export function connectVault(config: VaultConfig, options: VaultOptions) {
  const paths = kvPaths(config);
  const client = vaultClient(config, options, options.tls ?? readTls(config));
  const kv = new KvStore(client, paths);
  const method = authMethod(config.auth, client);
  const tokens = new TokenManager(client, method, { ...options, setTimer: options.setTimer ?? setTimer });
  return {
    tokens,
    /** Runs `work` with a valid token; see {@link TokenManager.withToken}. */
    withToken: <T>(work: (kv: KvStore, token: Secret) => Promise<T>): Promise<T> =>
      tokens.withToken((token) => work(kv, token)),
    useTls: (material: TlsMaterial): void => client.useTls(material),
    /** Revokes the token and closes all connections. Takes a bounded time and never rejects. */
    async close(): Promise<void> {
      await tokens.stop();
      client.close();
    },
  };
}

function readTls({ caFile, certFile, keyFile }: VaultConfig): TlsMaterial {
  return {
    ...(caFile === undefined ? {} : { ca: readFileSync(caFile, 'utf8') }),
    ...(certFile === undefined ? {} : { cert: readFileSync(certFile, 'utf8') }),
    ...(keyFile === undefined ? {} : { key: readFileSync(keyFile, 'utf8') }),
  };
}
