import type { VaultConfig } from '../../config/schema.ts';
import { Backoff } from '../../util/backoff.ts';
import { type SourceState, SourceUnavailable } from '../errors.ts';
import { parseKeys } from '../key.ts';
import type { KeyRing, KeySource, LoginRef } from '../key-source.ts';
import { loginRefString } from '../login-ref.ts';
import { assertDue } from './circuit-breaker.ts';
import { connectVault, type VaultOptions } from './connect.ts';
import { isVaultError, type VaultError } from './errors.ts';
import type { Fields, Version } from './kv2.ts';
import { revealFields } from './redact.ts';

/** Maximum number of superseded versions in a ring. */
const maxPreviousVersions = 4;

/** Milliseconds between reads of a login that Vault's policy denies. */
const deniedRange = { initial: 1000, max: 60_000 };

/** How far a read got. */
type Step = 'before' | 'login' | 'reading';

/** Reads one version; without a number the current one. */
type ReadVersion = (version?: number) => Promise<Version | undefined>;

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
  const denied = new Backoff(deniedRange, options.random);
  let denial: VaultError | undefined;

  async function reading<T>(login: LoginRef, work: (read: ReadVersion) => Promise<T>): Promise<T> {
    const name = loginRefString(login);
    let step: Step = 'before';
    try {
      assertDue(denied, options.monotonic(), denial, name);
      step = 'login';
      const result = await vault.withToken((kv, token) => {
        step = 'reading';
        return work((version) => kv.read(token, login, version));
      });
      denied.reset(name);
      return result;
    } catch (error) {
      if (isVaultError(error, 'denied')) {
        denial = error;
        denied.recordFailure(options.monotonic(), {}, name);
      }
      throw new SourceUnavailable(login, error, stateOf(error, step));
    }
  }

  return {
    read: (login) =>
      reading(login, (readVersion) => readRing(readVersion, options.clock() - rotationGracePeriod)),
    async readCurrent(login) {
      const current = await reading(login, (readVersion) => readVersion());
      return current?.fields && current.version;
    },
    start: () => vault.tokens.start(),
    ready: () => vault.tokens.loggedInOnce,
    useTls: (material) => vault.useTls(material),
    stop: () => vault.close(),
  };
}

/** A denied login says nothing about other logins; without a token none can be read. */
function stateOf(error: unknown, step: Step): SourceState {
  if (step === 'before') return 'unknown';
  if (step === 'login') return 'down';
  if (isVaultError(error, 'backing-off')) return 'unknown';
  return isVaultError(error, 'denied', 'rejected', 'unexpected-content', 'too-large') ? 'up' : 'down';
}

async function readRing(readVersion: ReadVersion, gracePeriodBegan: number): Promise<KeyRing | undefined> {
  const current = await readVersion();
  if (current?.fields === undefined) return undefined;
  const ring = [...keysOf(current, current.fields)];
  let newer = current;
  for (let step = 0; step < maxPreviousVersions && newer.version > 1; step += 1) {
    // Superseded when the next version was written.
    if (newer.createdAt.getTime() <= gracePeriodBegan) break;
    const earlier = await readVersion(newer.version - 1);
    if (earlier === undefined) break;
    if (earlier.fields !== undefined) ring.push(...keysOf(earlier, earlier.fields, newer.createdAt));
    newer = earlier;
  }
  return ring;
}

function keysOf({ version, createdAt }: Version, fields: Fields, supersededAt?: Date): KeyRing {
  const about = { version, createdAt, ...(supersededAt === undefined ? {} : { supersededAt }) };
  return parseKeys(revealFields(fields), about);
}
