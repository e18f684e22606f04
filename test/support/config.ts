import { createHash } from 'node:crypto';
import type { z } from 'zod';
import type { configSchema } from '../../src/config/schema.ts';

export type ConfigInput = z.input<typeof configSchema>;
export type EnvironmentInput = ConfigInput['environments'][string];

/** A grant of everything. */
export const everything = { environments: ['*'], operations: ['*'], logins: ['*'] };

/** The credential of a caller with this bearer token. */
export const tokenCredential = (token: string) => ({
  tokenSha256: createHash('sha256').update(token).digest('hex'),
});

export const environmentFor = (baseUrl: string): EnvironmentInput => ({
  baseUrl,
  product: 'gw',
  endpoints: { '1234': 'acme' },
});

/** The `Host` of requests that tests write byte by byte. */
const rawHosts = ['countersign.test', 'x'];

/**
 * The configuration of all tests: free ports of loopback, the environment `sandbox`, keys in the folder `keys`, and an
 * anonymous caller who may do everything. `config` replaces whole top-level fields, `sandbox` fields of the environment.
 */
export function configFor(
  gateway: string,
  config: Partial<ConfigInput> = {},
  sandbox: Partial<EnvironmentInput> = {},
): ConfigInput {
  return {
    proxy: { port: 0, timeouts: { shutdownDelay: '0s' }, allowedHosts: rawHosts },
    admin: { port: 0 },
    environments: { sandbox: { ...environmentFor(gateway), ...sandbox } },
    keys: { source: 'directory', directory: './keys' },
    callers: [{ name: 'local', credentials: [{ anonymous: true }], allow: [everything] }],
    ...config,
    ...(config.proxy && { proxy: { allowedHosts: rawHosts, ...config.proxy } }),
  };
}
