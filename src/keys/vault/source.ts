import type { VaultConfig } from '../../config/schema.ts';
import type { Secret } from '../../secret.ts';
import { readTlsMaterial } from '../../tls/files.ts';
import type { TlsMaterial } from '../../tls/material.ts';
import { endsWithin } from '../../util/promises.ts';
import { keyNotUsable, type SourceState, SourceUnavailable, signingUnavailable } from '../errors.ts';
import { isNamed, type Parsed } from '../key.ts';
import type { KeySource, LoginRef, SigningObserver, SignRemotely, TransitResult } from '../key-source.ts';
import { type Fields, revealFields, vaultClient } from './client.ts';
import { isVaultError, problemOf, VaultError } from './errors.ts';
import type { TransportOptions } from './http.ts';
import { KvStore, kvPaths } from './kv2.ts';
import { identityOf, type ReadVersion, readRing } from './read-ring.ts';
import { TokenManager, type TokenManagerOptions } from './token-manager.ts';
import { TransitEngine } from './transit.ts';

export interface VaultOptions extends TransportOptions, TokenManagerOptions {
  readonly events: TokenManagerOptions['events'] & SigningObserver;
  /** Content of `caFile`, `certFile` and `keyFile`; read from the files unless given. */
  readonly tls?: TlsMaterial;
}

/**
 * Milliseconds that a signature waits for a Vault that failed before: long enough for one that is back, and not as long as
 * for one that hangs.
 */
const failingWait = 1_000;

type VaultConnection = ReturnType<typeof connectVault>;

/**
 * Reads keys from Vault's KV version 2, with one secret per login.
 *
 * @param rotationGracePeriod milliseconds during which a superseded version stays in the ring
 * @throws as {@link connectVault}
 */
export function createVaultSource(
  config: VaultConfig,
  rotationGracePeriod: number,
  options: VaultOptions,
): KeySource {
  const vault = connectVault(config, options);
  async function reading<T>(login: LoginRef, work: (read: ReadVersion) => Promise<T>): Promise<T> {
    let isLogin = true;
    try {
      return await vault.withKeys((kv, token, transitKeyIn) => {
        isLogin = false;
        return work(async (number) => {
          const version = await kv.read(token, login, number);
          const transit = version?.fields && (await transitKeyIn(login, version.fields));
          return version && transit ? { ...version, transit } : version;
        });
      });
    } catch (error) {
      throw new SourceUnavailable(login, error, stateOf(error, isLogin), problemOf(error, isLogin));
    }
  }

  return {
    read: (login, known = [], isSearch = false) =>
      reading(login, (readVersion) => {
        const gracePeriodBegan = options.clock() - rotationGracePeriod;
        return readRing(readVersion, { gracePeriodBegan, known, isSearch });
      }),
    async readCurrent(login) {
      const current = await reading(login, (readVersion) => readVersion());
      return current === undefined ? 'not-found' : identityOf(current);
    },
    sign: createSigner(vault, options),
    start: () => vault.tokens.start(),
    ready: () => vault.tokens.loggedInOnce,
    useTls: (material) => vault.useTls(material),
    stop: () => vault.close(),
  };
}

function createSigner(vault: VaultConnection, options: VaultOptions): SignRemotely {
  const { monotonic, events } = options;
  /** Whether Vault did not respond to the last signature, or with an internal error. */
  let isFailing = false;
  return async (login, key, baseString) => {
    const startedAt = monotonic();
    const report = (result: TransitResult, problem?: string): void =>
      events.transitSigned(login.environment, result, (monotonic() - startedAt) / 1000, problem);
    let isLogin = true;
    const signing = vault.withToken((_kv, token) => {
      isLogin = false;
      return vault.transit.sign(token, key, baseString);
    });
    try {
      // The request ends by itself.
      if (isFailing && !(await endsWithin(failingWait, signing, options.setTimer)))
        throw new VaultError('timeout');
      const signature = await signing;
      isFailing = false;
      report('ok');
      return signature;
    } catch (error) {
      const result = transitResultOf(error, isLogin);
      isFailing = result === 'unavailable';
      report(result, problemOf(error, isLogin));
      const isOfKey = result === 'rejected' || result === 'invalid';
      const problem = `Vault does not sign with the Transit key ${key.name}, version ${key.keyVersion}`;
      throw isOfKey ? keyNotUsable(login, problem, error) : signingUnavailable(login, error);
    }
  };
}

function transitResultOf(error: unknown, isLogin: boolean): TransitResult {
  if (isLogin) return 'unavailable';
  if (isVaultError(error, 'wrong-signature')) return 'invalid';
  if (isVaultError(error, 'rejected', 'not-found')) return 'rejected';
  return isVaultError(error, 'denied', 'no-route') ? 'denied' : 'unavailable';
}

/** Without a token none can be read. */
function stateOf(error: unknown, isLogin: boolean): SourceState {
  if (isLogin) return 'down';
  if (isVaultError(error, 'backing-off')) return 'unknown';
  if (isVaultError(error, 'denied')) return 'denied';
  return isVaultError(error, 'rejected', 'unexpected-content', 'too-large') ? 'up' : 'down';
}

/** The key in the Transit engine that a secret names; `undefined` if it names none. */
type FindTransitKey = (login: LoginRef, fields: Fields) => Promise<Parsed | undefined>;

/**
 * A connection to Vault: its secrets, and the token for them. Sends nothing before `tokens.start` or `withToken`.
 *
 * @throws TypeError for an ambiguous path template
 * @throws Error if a certificate file cannot be read
 */
export function connectVault(config: VaultConfig, options: VaultOptions) {
  const paths = kvPaths(config);
  const client = vaultClient(config, options, options.tls ?? readTlsMaterial(config));
  const kv = new KvStore(client, paths);
  const transit = new TransitEngine(client, config);
  const tokens = new TokenManager(client, config.auth, options);
  return {
    tokens,
    transit,
    /**
     * Runs `work` with a valid token, and with what finds the keys in the Transit engine. That Vault denies one of them
     * is its problem only if the token turns out to be valid, so `work` runs once more then.
     */
    async withKeys<T>(work: (kv: KvStore, token: Secret, find: FindTransitKey) => Promise<T>): Promise<T> {
      let denial: unknown;
      const run = (isValid: boolean): Promise<T> =>
        tokens.withToken((token) =>
          work(kv, token, async ({ environment }, fields) => {
            const reference = revealFields(fields)['transit_key'];
            if (!isNamed(reference)) return undefined;
            return transit.find(token, environment, reference, isValid).catch((error: unknown) => {
              denial = error;
              throw error;
            });
          }),
        );
      return run(false).catch((error: unknown) => {
        if (isVaultError(error, 'denied') && error === denial) return run(true);
        throw error;
      });
    },
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
