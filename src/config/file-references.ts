import { resolve } from 'node:path';
import type { Path } from './problem.ts';
import { withoutPrototype } from './schema/values.ts';
import type { Config } from './schema.ts';

/** The configuration with absolute file paths: in the file they are relative to the folder it stands in. */
export function resolveFiles(config: Config, folder: string): Config {
  const { proxy, environments, keys } = config;
  const resolved = <T extends object>(part: T): T => ({
    ...part,
    ...Object.fromEntries(filesIn(part).map(([field, file]) => [field, resolve(folder, file)])),
  });
  const resolvedEnvironments = Object.entries(environments).map(([name, part]) => [name, resolved(part)]);
  return {
    ...config,
    proxy: proxy.tls === undefined ? proxy : { ...proxy, tls: resolved(proxy.tls) },
    environments: withoutPrototype(Object.fromEntries(resolvedEnvironments)),
    keys:
      keys.source === 'directory'
        ? { ...keys, directory: resolve(folder, keys.directory) }
        : { ...keys, vault: { ...resolved(keys.vault), auth: resolved(keys.vault.auth) } },
  };
}

/** Every file the configuration names, with the place that names it. */
export function referencedFiles({ proxy, environments, keys }: Config): { path: Path; file: string }[] {
  const holders: [path: Path, part: object][] = [
    [['proxy', 'tls'], proxy.tls ?? {}],
    ...Object.entries(environments).map(([name, part]): [Path, object] => [['environments', name], part]),
    [['keys', 'vault'], keys.source === 'vault' ? keys.vault : {}],
    [['keys', 'vault', 'auth'], keys.source === 'vault' ? keys.vault.auth : {}],
  ];
  return holders.flatMap(([path, part]) =>
    filesIn(part).map(([field, file]) => ({ path: [...path, field], file })),
  );
}

/** Fields of this object that name a file: the shape calls them all `...File`. */
function filesIn(part: object): [field: string, file: string][] {
  return Object.entries(part).filter(
    (entry): entry is [string, string] => entry[0].endsWith('File') && typeof entry[1] === 'string',
  );
}
