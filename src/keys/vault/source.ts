import type { VaultConfig } from '../../config/schema.ts';
import { type SourceState, SourceUnavailable } from '../errors.ts';
import { parseKeys } from '../key.ts';
import type { KeyRing, KeySource, LoginRef } from '../key-source.ts';
import { connectVault, type VaultPorts } from './connect.ts';
import { PermissionBreakers } from './denied-logins.ts';
import { isVaultError } from './errors.ts';
import type { Fields, Version } from './kv2.ts';
import { revealFields } from './redact.ts';

/** How many superseded versions a ring can hold. */
const maxPreviousVersions = 4;

/** How far a read came. */
type Step = 'before' | 'login' | 'reading';

/** Reads one version; the current one without a number. */
type ReadVersion = (version?: number) => Promise<Version | undefined>;

/**
 * Keys in Vault's KV version 2, one secret a login.
 *
 * @param rotationGracePeriod milliseconds for which a superseded version stays in the ring.
 * @throws as {@link connectVault}.
 */
export function createVaultSource(
  config: VaultConfig,
  rotationGracePeriod: number,
  ports: VaultPorts,
): KeySource {
  const vault = connectVault(config, ports);
  const denied = new PermissionBreakers(ports);

  async function read(address: LoginRef): Promise<KeyRing | undefined> {
    let step: Step = 'before';
    try {
      denied.check(address);
      step = 'login';
      const ring = await vault.use((kv, token) => {
        step = 'reading';
        const readVersion: ReadVersion = (version) => kv.read(token, address, version);
        return readRing(readVersion, ports.clock() - rotationGracePeriod);
      });
      denied.forget(address);
      return ring;
    } catch (error) {
      if (isVaultError(error, 'denied')) denied.remember(address, error);
      throw new SourceUnavailable(address, error, stateOf(error, step));
    }
  }

  return {
    read,
    start: () => vault.session.start(),
    ready: () => vault.session.loggedInOnce,
    useTls: (material) => vault.useTls(material),
    stop: () => vault.close(),
  };
}

/** A login that is denied says nothing of the others; without a token none can be read. */
function stateOf(error: unknown, step: Step): SourceState {
  if (step === 'before') return 'not-asked';
  if (step === 'login') return 'down';
  if (isVaultError(error, 'backing-off')) return 'not-asked';
  return isVaultError(error, 'denied', 'rejected', 'unexpected-content') ? 'up' : 'down';
}

async function readRing(readVersion: ReadVersion, gracePeriodBegan: number): Promise<KeyRing | undefined> {
  const current = await readVersion();
  if (current?.fields === undefined) return undefined;
  const ring = [...keysOf(current, current.fields)];
  let above = current;
  for (let step = 0; step < maxPreviousVersions && above.version > 1; step += 1) {
    // Superseded when the version above it was written.
    if (above.createdAt.getTime() <= gracePeriodBegan) break;
    const earlier = await readVersion(above.version - 1);
    if (earlier === undefined) break;
    if (earlier.fields !== undefined) ring.push(...keysOf(earlier, earlier.fields, above.createdAt));
    above = earlier;
  }
  return ring;
}

function keysOf({ version, createdAt }: Version, fields: Fields, supersededAt?: Date): KeyRing {
  const about = { version, createdAt, ...(supersededAt === undefined ? {} : { supersededAt }) };
  return parseKeys(revealFields(fields), about);
}
