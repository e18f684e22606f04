import { createPublicKey } from 'node:crypto';
import { join } from 'node:path';
import { listSubdirectories } from '../../keys/directory/list.ts';
import { DirectorySource } from '../../keys/directory/source.ts';
import type { LoginRef, UnusableKey, UsableKey } from '../../keys/key-source.ts';
import type { GatewayKeys } from '../../simulator/signature.ts';

/**
 * What a gateway needs so as to accept every key of the proxy's key directory: control keys and public keys,
 * by login. The keys of a login that stands under several environments are all accepted.
 *
 * @throws Error for a directory that cannot be read, or a key that cannot be used; it names the login.
 */
export async function loadSimulatorKeys(directory: string): Promise<ReadonlyMap<string, GatewayKeys>> {
  const source = new DirectorySource({ directory, rotationGracePeriod: 0, now: () => 0 });
  const keys = new Map<string, GatewayKeys>();
  for (const environment of await listSubdirectories(directory)) {
    for (const login of await listSubdirectories(join(directory, environment))) {
      const known = keys.get(login) ?? { controlKeys: [], publicKeys: [] };
      keys.set(login, (await usableKeys(source, { environment, login })).reduce(withKey, known));
    }
  }
  return keys;
}

function withKey(keys: GatewayKeys, { key }: UsableKey): GatewayKeys {
  return key.kind === 'control_key'
    ? { ...keys, controlKeys: [...keys.controlKeys, key.secret] }
    : { ...keys, publicKeys: [...keys.publicKeys, createPublicKey(key.privateKey)] };
}

async function usableKeys(source: DirectorySource, address: LoginRef): Promise<UsableKey[]> {
  const owner = `${address.environment}/${address.login}`;
  try {
    return ((await source.read(address)) ?? []).map(usable);
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new Error(`The keys of ${owner} cannot be used: ${problem}`, { cause: error });
  }
}

function usable(key: UsableKey | UnusableKey): UsableKey {
  if ('problem' in key) throw new Error(key.problem);
  return key;
}
