import { hash } from 'node:crypto';
import { access, constants, readFile, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { auditKeyFault } from '../audit/key.ts';
import { readTlsFiles, type TlsFiles, type TlsUser, tlsFilesIn } from '../tls/files.ts';
import { type TlsPart, untimelyParts } from '../tls/material.ts';
import { errorCode } from '../util/error-code.ts';
import { type Finding, located, type Path, type Problem } from './problem.ts';
import type { BuiltIn } from './rules/operations.ts';
import { standardOutput } from './schema/audit.ts';
import { withoutPrototype } from './schema/values.ts';
import type { AuditConfig, Config } from './schema.ts';
import { validateConfig } from './validate.ts';
import type { EnvLookup } from './yaml/parse.ts';

/** Own properties only: `${constructor}` is a variable that is not set. */
export const fromEnvironment = (name: string): string | undefined =>
  Object.hasOwn(process.env, name) ? process.env[name] : undefined;

interface LoadOptions {
  /** Looks up variables; {@link fromEnvironment} by default. */
  readonly lookUp?: EnvLookup;
  /** Skips the check of referenced files, which do not exist on a build machine. */
  readonly skipFiles?: boolean;
  /** Milliseconds since 1970. If given, certificates must be valid at this time. */
  readonly certificatesAt?: number;
}

export interface ValidConfig {
  readonly config: Config;
  /** SHA-256 over the bytes of the file, hex: variables are not yet substituted, so it says nothing about a secret. */
  readonly digest: string;
}

/** A valid configuration with what may yet surprise, or what is wrong with it. */
export type LoadedConfig =
  | (ValidConfig & { readonly notices: readonly Problem[] })
  | { readonly problems: readonly Problem[] };

/**
 * Loads and validates a configuration file, and checks that the files it references are readable. All file paths in
 * the result are absolute. Never rejects for an invalid file: it returns the problems.
 */
export async function loadConfig(
  file: string,
  builtIn: BuiltIn,
  { lookUp = fromEnvironment, skipFiles = false, certificatesAt }: LoadOptions = {},
): Promise<LoadedConfig> {
  const problem = await fileProblem(file);
  if (problem !== undefined) return { problems: [{ path: '', line: 0, message: problem }] };
  const bytes = await readFile(file);
  const checked = validateConfig(bytes.toString('utf8'), { lookUp, builtIn });
  if ('problems' in checked) return checked;
  const config = resolveFiles(checked.config, dirname(file));
  const findings = skipFiles ? [] : await fileFindings(config, certificatesAt);
  if (findings.length > 0) return { problems: located(findings, checked.lineOf) };
  return { config, digest: hash('sha256', bytes), notices: checked.notices };
}

/** Of the files that a configuration references. The content of one is checked only where all can be read. */
async function fileFindings(config: Config, certificatesAt: number | undefined): Promise<Finding[]> {
  const findings = await unreadableFiles(config);
  if (findings.length === 0) findings.push(...(await wrongAuditKey(config)));
  if (findings.length === 0 && certificatesAt !== undefined)
    findings.push(...(await wrongCertificates(config, certificatesAt)));
  return findings.map(({ path, message }) => ({ path, message: `names a file that ${message}` }));
}

async function unreadableFiles(config: Config): Promise<Finding[]> {
  const checked = await Promise.all(
    referencedFiles(config).map(async ({ path, file }) => ({ path, message: await fileProblem(file) })),
  );
  return checked.flatMap(({ path, message }) => (message === undefined ? [] : [{ path, message }]));
}

/** Certificates and keys that cannot be parsed, do not match, or are not valid now. */
async function wrongCertificates(config: Config, now: number): Promise<Finding[]> {
  const groups = tlsFilesOf(config).map(async ({ files, paths }) => {
    const read = await readTlsFiles(files);
    const faults = 'faults' in read ? read.faults : untimelyParts(read.material, now);
    return faults.map(({ part, message }) => ({ path: paths[part], message }));
  });
  return (await Promise.all(groups)).flat();
}

async function wrongAuditKey({ audit }: Config): Promise<Finding[]> {
  const message = audit && (await auditKeyFault(audit.keyFile));
  return message === undefined ? [] : [{ path: ['audit', 'keyFile'], message }];
}

/** Why a file cannot be read. Does not repeat its name: it may be a token in the wrong field. */
async function fileProblem(file: string): Promise<string | undefined> {
  try {
    await access(file, constants.R_OK);
    return (await stat(file)).isFile() ? undefined : 'is a directory or a device: name a regular file';
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT')
      return 'does not exist: check the path; relative paths start at the directory of the configuration file';
    if (code === 'EACCES') return 'is not readable: check its permissions';
    return `cannot be read (${code})`;
  }
}

/** The configuration with absolute file paths. In the file they are relative to its directory. */
export function resolveFiles(config: Config, base: string): Config {
  const { proxy, admin, environments, keys, jwtIssuers, audit, tracing } = config;
  const resolved = <T extends object>(part: T): T => ({
    ...part,
    ...Object.fromEntries(filesIn(part).map(([field, file]) => [field, resolve(base, file)])),
    ...Object.fromEntries(proxiesIn(part).map(([field, proxy]) => [field, resolved(proxy)])),
  });
  const resolvedEnvironments = Object.entries(environments).map(([name, part]) => [name, resolved(part)]);
  return {
    ...config,
    proxy: { ...proxy, tls: proxy.tls && resolved(proxy.tls) },
    admin: { ...admin, tls: admin.tls && resolved(admin.tls) },
    ...(audit === undefined ? {} : { audit: resolvedAudit(resolved(audit), base) }),
    ...(tracing === undefined ? {} : { tracing: resolved(tracing) }),
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
  admin,
  environments,
  keys,
  jwtIssuers,
  audit,
  tracing,
}: Config): { path: Path; file: string }[] {
  const parts: [path: Path, part: object][] = [
    [['proxy', 'tls'], proxy.tls ?? {}],
    [['admin', 'tls'], admin.tls ?? {}],
    [['audit'], audit ?? {}],
    [['tracing'], tracing ?? {}],
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
  const proxies = parts.flatMap(([path, part]) =>
    proxiesIn(part).map(([field, proxy]): [Path, object] => [[...path, field], proxy]),
  );
  const named = [...parts, ...proxies].flatMap(([path, part]) =>
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

/** The egress proxy of this object. */
function proxiesIn(part: object): [field: string, proxy: object][] {
  const proxy = 'egressProxy' in part ? part.egressProxy : undefined;
  return typeof proxy === 'object' && proxy !== null ? [['egressProxy', proxy]] : [];
}

/** All certificate, key and CA files of a configuration by user, with the configuration path of each. */
export function tlsFilesOf({ proxy, admin, environments, keys }: Config) {
  const vault = keys.source === 'vault' ? keys.vault : undefined;
  const groups: { user: TlsUser; files: TlsFiles; paths: Readonly<Record<TlsPart, Path>> }[] = [
    {
      user: { role: 'listener' },
      files: listenerFilesIn(proxy.tls),
      paths: pathsBelow(['proxy', 'tls'], 'clientCaFile'),
    },
    {
      user: { role: 'admin' },
      files: listenerFilesIn(admin.tls),
      paths: pathsBelow(['admin', 'tls'], 'clientCaFile'),
    },
    {
      user: { role: 'vault' },
      files: tlsFilesIn(vault ?? {}),
      paths: pathsBelow(['keys', 'vault']),
    },
    ...Object.entries(environments).map(([environment, settings]) => ({
      user: { role: 'gateway' as const, environment },
      files: tlsFilesIn(settings),
      paths: pathsBelow(['environments', environment]),
    })),
  ];
  return groups.filter(({ files }) => Object.values(files).some((file) => file !== undefined));
}

function listenerFilesIn(tls: Config['proxy']['tls']): TlsFiles {
  return { cert: tls?.certFile, key: tls?.keyFile, ca: tls?.clientCaFile, crl: tls?.clientCrlFile };
}

function pathsBelow(at: Path, caField = 'caFile'): Readonly<Record<TlsPart, Path>> {
  return {
    cert: [...at, 'certFile'],
    key: [...at, 'keyFile'],
    ca: [...at, caField],
    crl: [...at, 'clientCrlFile'],
    proxyCa: [...at, 'egressProxy', 'caFile'],
  };
}
