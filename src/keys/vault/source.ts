import type { VaultConfig } from '../../config/schema.ts';
import { readTlsMaterial } from '../../net/tls-files.ts';
import type { TlsMaterial } from '../../net/tls-material.ts';
import { type SourceState, SourceUnavailable } from '../errors.ts';
import { isGiven } from '../field-names.ts';
import { parseKeys } from '../key.ts';
import type { KeySource } from '../key-source.ts';
import type { LoginRef } from '../login-ref.ts';
import { authenticatedClient, revealFields, vaultClient } from './client.ts';
import { isOfPathOnly, isVaultError, problemOf } from './errors.ts';
import type { TransportOptions } from './http.ts';
import { KvStore } from './kv2.ts';
import { kvPaths } from './paths.ts';
import { type KeyVersion, readRing } from './read-ring.ts';
import { TokenManager, type TokenManagerOptions } from './token-manager.ts';
import { createTransitSigner, TransitEngine, type TransitSignerOptions } from './transit.ts';

export interface VaultOptions extends TransportOptions, TokenManagerOptions, TransitSignerOptions {
  readonly events: TokenManagerOptions['events'] & TransitSignerOptions['events'];
  /** Content of `caFile`, `certFile` and `keyFile`; read from the files unless given. */
  readonly tls?: TlsMaterial;
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
      const inTransit = isGiven(reference) ? await transit.find(login.environment, reference) : undefined;
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

/**
 * Reads keys from Vault's KV version 2, with one secret per login.
 *
 * @param vault closed by `stop`
 * @param rotationGracePeriod milliseconds during which a superseded version stays in the ring
 */
export function createVaultSource(
  vault: VaultConnection,
  rotationGracePeriod: number,
  options: VaultOptions,
): KeySource {
  return {
    async read(login, known = [], accepted = []) {
      const needs = { gracePeriodBegan: options.clock() - rotationGracePeriod, known, accepted };
      return readRing((number) => vault.readVersion(login, number), needs).catch(unavailable(login));
    },
    sign: createTransitSigner(vault.transit, options),
    start: () => vault.tokens.start(),
    check: () =>
      vault.tokens
        .withToken(async () => {})
        .catch((error: unknown) => {
          throw new Error(problemOf(error));
        }),
    ready: () => vault.tokens.loggedInOnce,
    useTls: (material) => vault.useTls(material),
    stop: () => vault.close(),
  };
}

function unavailable(login: LoginRef): (error: unknown) => never {
  return (error) => {
    throw new SourceUnavailable(login, error, stateOf(error), problemOf(error));
  };
}

/** Without a token none can be read. */
function stateOf(error: unknown): SourceState {
  if (!isOfPathOnly(error)) return 'down';
  if (isVaultError(error, 'denied')) return 'denied';
  return isVaultError(error, 'rejected', 'unexpected-content', 'too-large') ? 'up' : 'down';
}
