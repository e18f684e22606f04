import { z } from 'zod';
import type { Secret } from '../../secret.ts';
import type { VaultClient } from './client.ts';
import { isUnavailable, isVaultError, VaultError } from './errors.ts';

const mountShape = z.object({
  data: z.object({ type: z.string(), options: z.object({ version: z.string().optional() }).nullish() }),
});

/**
 * Detects a mount with KV version 1, which responds with 404 to every path of version 2: without this check all
 * logins would seem to have no keys. Checked once, with the path that the Vault CLI uses too
 * (`sys/internal/ui/mounts/:path`). Vault permits it to every token that has any access to the mount.
 *
 * The returned function throws VaultError `kv-version-1`.
 */
export function createMountCheck(client: VaultClient, mount: string): (token: Secret) => Promise<undefined> {
  let known = false;
  return async (token) => {
    if (!known && (await isVersion1(client, mount, token))) throw new VaultError('kv-version-1');
    known = true;
  };
}

/** If Vault does not report it, the secret counts as not found. */
async function isVersion1(client: VaultClient, mount: string, token: Secret): Promise<boolean> {
  try {
    const { data } = await client.read(`sys/internal/ui/mounts/${mount}`, mountShape, token);
    return data.type === 'kv' && data.options?.version !== '2';
  } catch (error) {
    if (isUnavailable(error) || isVaultError(error, 'backing-off')) throw error;
    return false;
  }
}
