import { readFileSync } from 'node:fs';
import type { VaultConfig } from '../../config/schema.ts';
import type { Secret } from '../../secret.ts';
import type { TlsMaterial } from '../../tls/material.ts';
import type { BackoffOptions } from '../../util/backoff.ts';
import { type SetTimer, setTimer } from '../../util/timer.ts';
import { authMethod } from './auth-methods.ts';
import { vaultClient } from './client.ts';
import { KvStore } from './kv2.ts';
import { kvPaths } from './paths.ts';
import { TokenManager, type TokenManagerObserver } from './token-manager.ts';

/** What keys in Vault need from outside. */
export interface VaultPorts extends BackoffOptions {
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  readonly events: TokenManagerObserver;
  /** PEM texts of `caFile`, `certFile` and `keyFile`; read here unless given. */
  readonly tls?: TlsMaterial;
  /** Timers of the process unless a test brings its own. */
  readonly setTimer?: SetTimer;
}

/** Vault, logged in: secrets and the session that gives the token for them. */
export interface Vault {
  readonly session: TokenManager;
  /** Does some work on the secrets with a valid token; see {@link TokenManager.withToken}. */
  use<T>(work: (kv: KvStore, token: Secret) => Promise<T>): Promise<T>;
  useTls(material: TlsMaterial): void;
  /** Ends the session and its token. Takes a bounded time and never rejects. */
  close(): Promise<void>;
}

/**
 * Puts the parts together; nothing is sent before `session.start` or `use`.
 *
 * @throws TypeError for a path template that could mix logins up, Error if a certificate file cannot be read.
 */
export function connectVault(config: VaultConfig, ports: VaultPorts): Vault {
  const paths = kvPaths(config);
  const client = vaultClient(config, ports, ports.tls ?? readTls(config));
  const kv = new KvStore(client, paths);
  const method = authMethod(config.auth, client);
  const session = new TokenManager(client, method, { ...ports, setTimer: ports.setTimer ?? setTimer });
  return {
    session,
    use: (work) => session.withToken((token) => work(kv, token)),
    useTls: (material) => client.useTls(material),
    async close() {
      await session.stop();
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
