import { z } from 'zod';
import type { VaultClient } from './client.ts';
import type { TokenManager } from './token-manager.ts';

export type AuthenticatedClient = ReturnType<typeof authenticatedClient>;

/**
 * The same requests as those of the client, each with a valid token; see {@link TokenManager.withToken}. What is still
 * `denied` is denied to this token, and not because it was revoked.
 */
export function authenticatedClient(client: VaultClient, tokens: TokenManager) {
  type Shape<T> = z.ZodType<T>;
  return {
    read: <T>(path: string, shape: Shape<T>) => tokens.withToken((token) => client.read(path, shape, token)),
    list: <T>(path: string, shape: Shape<T>) => tokens.withToken((token) => client.list(path, shape, token)),
    write: <T>(path: string, data: object, shape: Shape<T>) =>
      tokens.withToken((token) => client.write(path, data, shape, token)),
    post: <T>(path: string, data: object, shape: Shape<T>) =>
      tokens.withToken((token) => client.post(path, data, shape, token)),
  };
}

/** By path. */
const capabilitiesShape = z.object({ data: z.record(z.string(), z.array(z.string())) });

/**
 * What the token may do with paths (`sys/capabilities-self`). Policies name them as they are, and not encoded for a URL.
 *
 * @throws VaultError
 */
export async function permissionsOf(client: AuthenticatedClient, encoded: readonly string[]) {
  const paths = encoded.map(decodeURIComponent);
  const { data } = await client.write('sys/capabilities-self', { paths }, capabilitiesShape);
  return (path: string, ...rights: readonly string[]): boolean =>
    data[decodeURIComponent(path)]?.some((right) => [...rights, 'root'].includes(right)) === true;
}
