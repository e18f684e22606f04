import { resolve } from 'node:path';
import type { Path } from './problem.ts';
import { standardOutput } from './schema/audit.ts';
import { withoutPrototype } from './schema/values.ts';
import type { AuditConfig, Config } from './schema.ts';

/** The configuration with absolute file paths. In the file they are relative to its directory. */
export function resolveFiles(config: Config, base: string): Config {
  const { proxy, environments, keys, jwtIssuers, audit } = config;
  const resolved = <T extends object>(part: T): T => ({
    ...part,
    ...Object.fromEntries(filesIn(part).map(([field, file]) => [field, resolve(base, file)])),
  });
  const resolvedEnvironments = Object.entries(environments).map(([name, part]) => [name, resolved(part)]);
  return {
    ...config,
    proxy: proxy.tls === undefined ? proxy : { ...proxy, tls: resolved(proxy.tls) },
    ...(audit === undefined ? {} : { audit: resolvedAudit(resolved(audit), base) }),
    environments: withoutPrototype(Object.fromEntries(resolvedEnvironments)),
    jwtIssuers: withoutPrototype(
      Object.fromEntries(
        Object.entries(jwtIssuers).map(([name, { jwks, ...part }]) => [
          name,
          {
            ...resolved(part),
            ...(jwks && { jwks: 'file' in jwks ? { file: resolve(base, jwks.file) } : jwks }),
          },
        ]),
      ),
    ),
    keys:
      keys.source === 'directory'
        ? { ...keys, directory: resolve(base, keys.directory) }
        : { ...keys, vault: { ...resolved(keys.vault), auth: resolved(keys.vault.auth) } },
  };
}

/** The file of the trail need not exist yet. */
function resolvedAudit(audit: AuditConfig, base: string): AuditConfig {
  return audit.file === standardOutput ? audit : { ...audit, file: resolve(base, audit.file) };
}

/** Every file that the configuration references, with the path of the field. */
export function referencedFiles({
  proxy,
  environments,
  keys,
  jwtIssuers,
  audit,
}: Config): { path: Path; file: string }[] {
  const parts: [path: Path, part: object][] = [
    [['proxy', 'tls'], proxy.tls ?? {}],
    [['audit'], audit ?? {}],
    ...Object.entries(environments).map(([name, part]): [Path, object] => [['environments', name], part]),
    [['keys', 'vault'], keys.source === 'vault' ? keys.vault : {}],
    [['keys', 'vault', 'auth'], keys.source === 'vault' ? keys.vault.auth : {}],
    ...Object.entries(jwtIssuers).map(([name, part]): [Path, object] => [['jwtIssuers', name], part]),
  ];
  const keySets = Object.entries(jwtIssuers).flatMap(([name, { jwks }]) =>
    jwks !== undefined && 'file' in jwks
      ? [{ path: ['jwtIssuers', name, 'jwks', 'file'], file: jwks.file }]
      : [],
  );
  const named = parts.flatMap(([path, part]) =>
    filesIn(part).map(([field, file]) => ({ path: [...path, field], file })),
  );
  return [...named, ...keySets];
}

/** Fields of this object that name a file. In the schema, all their names end in `File`, except `jwks.file`. */
function filesIn(part: object): [field: string, file: string][] {
  return Object.entries(part).filter(
    (entry): entry is [string, string] => entry[0].endsWith('File') && typeof entry[1] === 'string',
  );
}
