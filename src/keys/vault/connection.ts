import type { VaultConfig } from '../../config/schema.ts';
import { readTlsMaterial } from '../../tls/files.ts';
import type { TlsMaterial } from '../../tls/material.ts';
import { isNamed, parseKeys } from '../key.ts';
import type { SigningObserver } from '../key-source.ts';
import type { LoginRef } from '../login-ref.ts';
import type { KeyRing } from '../ring.ts';
import { authenticatedClient, revealFields, vaultClient } from './client.ts';
import type { TransportOptions } from './http.ts';
import { KvStore, type StoredVersion } from './kv2.ts';
import { kvPaths } from './paths.ts';
import { TokenManager, type TokenManagerOptions } from './token-manager.ts';
import { TransitEngine } from './transit.ts';

export interface VaultOptions extends TransportOptions, TokenManagerOptions {
  readonly events: TokenManagerOptions['events'] & SigningObserver;
  /** Content of `caFile`, `certFile` and `keyFile`; read from the files unless given. */
  readonly tls?: TlsMaterial;
}

/** A version of a login's secret with the keys in it; none if it is deleted or destroyed. */
export interface KeyVersion extends StoredVersion {
  readonly keys: KeyRing;
}

export type VaultConnection = ReturnType<typeof connectVault>;

/**
 * A connection to Vault: its secrets, the keys in its Transit engine, and the token for both. Sends nothing before
 * `tokens.start` or the first request. Every method throws only VaultError.
 *
 * @throws TypeError for an ambiguous path template
 * @throws Error if a certificate file cannot be read
 */
export function connectVault(config: VaultConfig, options: VaultOptions) {
  const paths = kvPaths(config);
  const client = vaultClient(config, options, options.tls ?? readTlsMaterial(config));
  const tokens = new TokenManager(client, config.auth, options);
  const authenticated = authenticatedClient(client, tokens);
  const kv = new KvStore(authenticated, paths);
  const transit = new TransitEngine(authenticated, config);
  return {
    kv,
    transit,
    tokens,
    /** Without `number` the current version. `undefined` if there never was one. */
    async readVersion(login: LoginRef, number?: number): Promise<KeyVersion | undefined> {
      const stored = await kv.read(login, number);
      if (stored?.fields === undefined) return stored && { ...stored, keys: [] };
      const { version, createdAt } = stored;
      const fields = revealFields(stored.fields);
      const { transit_key: reference } = fields;
      const inTransit = isNamed(reference) ? await transit.find(login.environment, reference) : undefined;
      return { ...stored, keys: parseKeys(fields, { version, createdAt }, inTransit) };
    },
    useTls: (material: TlsMaterial): void => client.useTls(material),
    /** Revokes the token and closes all connections. Takes a bounded time and never rejects. */
    async close(): Promise<void> {
      await tokens.stop();
      client.close();
    },
  };
}
