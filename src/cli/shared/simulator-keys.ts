import { join } from 'node:path';
import { createDirectorySource, listSubdirectories } from '../../keys/directory/source.ts';
import { publicKeyOf } from '../../keys/key.ts';
import type { KeySource, LoginRef, UsableKey } from '../../keys/key-source.ts';
import { loginRefString } from '../../keys/login-ref.ts';
import { ringIn } from '../../keys/ring.ts';
import type { GatewayKeys } from '../../simulator/signature.ts';
import { messageOf } from './cli-error.ts';

/**
 * The keys that the simulator accepts: control keys and public keys of the proxy's key directory, by login. If a login
 * is in several environments, all its keys are accepted.
 *
 * @throws Error for an unreadable directory or an unusable key; it names the login
 */
export async function loadSimulatorKeys(directory: string): Promise<ReadonlyMap<string, GatewayKeys>> {
  const source = createDirectorySource({ directory, rotationGracePeriod: 0, now: () => 0 });
  const keys = new Map<string, GatewayKeys>();
  for (const environment of await listSubdirectories(directory)) {
    for (const login of await listSubdirectories(join(directory, environment))) {
      const previous = keys.get(login) ?? { controlKeys: [], publicKeys: [] };
      keys.set(login, (await usableKeys(source, { environment, login })).reduce(withKey, previous));
    }
  }
  return keys;
}

function withKey(keys: GatewayKeys, { key }: UsableKey): GatewayKeys {
  return key.kind === 'control_key'
    ? { ...keys, controlKeys: [...keys.controlKeys, key.secret] }
    : { ...keys, publicKeys: [...keys.publicKeys, publicKeyOf(key)] };
}

async function usableKeys(source: KeySource, login: LoginRef): Promise<UsableKey[]> {
  try {
    return (ringIn(await source.read(login)) ?? []).map((key) => {
      if ('problem' in key) throw new Error(key.problem);
      return key;
    });
  } catch (error) {
    throw new Error(`The keys of ${loginRefString(login)} cannot be used: ${messageOf(error)}`, {
      cause: error,
    });
  }
}
