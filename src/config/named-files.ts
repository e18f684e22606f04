import { existsSync } from 'node:fs';
import { access, constants, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { auditKeyFault } from '../audit/key.ts';
import { errorCode } from '../errors.ts';
import { readTlsFiles, type TlsFiles, type TlsUser, tlsFilesIn } from '../net/tls-files.ts';
import { type TlsPart, untimelyParts } from '../net/tls-material.ts';
import type { Finding, Path } from './problem.ts';
import type { Config } from './schema.ts';

/** Of the files that a configuration references. The content of one is checked only where all can be read. */
export async function fileFindings(config: Config, certificatesAt: number | undefined): Promise<Finding[]> {
  const findings = await unreadableFiles(config);
  if (findings.length === 0) findings.push(...(await wrongAuditKey(config)));
  if (findings.length === 0 && certificatesAt !== undefined)
    findings.push(...(await wrongCertificates(config, certificatesAt)));
  return findings.map(({ path, message }) => ({ path, message: `names a file that ${message}` }));
}

async function unreadableFiles(config: Config): Promise<Finding[]> {
  const checked = referencedFiles(config).map(async ({ path, file }) => {
    const message = await fileProblem(file);
    return message === undefined ? [] : [{ path, message }];
  });
  return (await Promise.all(checked)).flat();
}

/** A key directory may be made later; that of a typing error never is. */
export function keyDirectoryNotices({ keys }: Config): Finding[] {
  if (keys.source !== 'directory' || existsSync(keys.directory)) return [];
  const message = 'names a folder that does not exist: requests that need a key fail until it does';
  return [{ path: ['keys', 'directory'], message }];
}

/** Certificates and keys that cannot be parsed, do not match, or are not valid now. */
async function wrongCertificates(config: Config, now: number): Promise<Finding[]> {
  const groups = tlsFilesOf(config).map(async ({ user, path, files }) => {
    const read = await readTlsFiles(files);
    const faults = 'faults' in read ? read.faults : untimelyParts(read.material, now);
    return faults.map(({ part, message }) => ({ path: [...path, ...fieldOf(part, user)], message }));
  });
  return (await Promise.all(groups)).flat();
}

async function wrongAuditKey({ audit }: Config): Promise<Finding[]> {
  const message = audit && (await auditKeyFault(audit.keyFile));
  return message === undefined ? [] : [{ path: ['audit', 'keyFile'], message }];
}

/** Why a file cannot be read. Does not repeat its name: it may be a token in the wrong field. */
export async function fileProblem(file: string): Promise<string | undefined> {
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

/** Makes all file paths absolute, in place. In the file they are relative to its directory. */
export function resolveFiles(config: Config, base: string): void {
  for (const { part, field, file } of referencedFiles(config))
    Object.assign(part, { [field]: resolve(base, file) });
  const { audit, keys } = config;
  if (audit?.directory !== undefined) audit.directory = resolve(base, audit.directory);
  if (keys.source === 'directory') keys.directory = resolve(base, keys.directory);
}

interface FileField {
  readonly path: Path;
  readonly part: object;
  readonly field: string;
  readonly file: string;
}

/**
 * Every file that must exist, with the field that names it. In the schema, all their names end in `File`, except
 * `jwks.file`; callers have none, and endpoints are named by the operator.
 */
export function referencedFiles(part: object, path: Path = []): FileField[] {
  return Object.entries(part).flatMap(([field, file]: [string, unknown]) => {
    const at = [...path, field];
    if (typeof file === 'string' && (field.endsWith('File') || at.slice(-2).join() === 'jwks,file'))
      return [{ path: at, part, field, file }];
    const isSkipped = at.length === 1 ? field === 'callers' : at.length === 3 && field === 'endpoints';
    return isSkipped || typeof file !== 'object' || file === null ? [] : referencedFiles(file, at);
  });
}

/** The TLS files of the ports, Vault and the gateways, with the configuration path of each user's settings. */
export function tlsFilesOf({ proxy, admin, environments, keys }: Config) {
  const groups: { user: TlsUser; path: Path; files: TlsFiles }[] = [
    { user: { role: 'listener' }, path: ['proxy', 'tls'], files: listenerFilesIn(proxy.tls) },
    { user: { role: 'admin' }, path: ['admin', 'tls'], files: listenerFilesIn(admin.tls) },
    {
      user: { role: 'vault' },
      path: ['keys', 'vault'],
      files: tlsFilesIn(keys.source === 'vault' ? keys.vault : {}),
    },
    ...Object.entries(environments).map(([environment, settings]) => ({
      user: { role: 'gateway' as const, environment },
      path: ['environments', environment],
      files: tlsFilesIn(settings),
    })),
  ];
  return groups.filter(({ files }) => Object.values(files).some((file) => file !== undefined));
}

function listenerFilesIn(tls: Config['proxy']['tls']): TlsFiles {
  return { cert: tls?.certFile, key: tls?.keyFile, ca: tls?.clientCaFile, crl: tls?.clientCrlFile };
}

/** Where the settings of a user name a part. */
function fieldOf(part: TlsPart, { role }: TlsUser): Path {
  const isListener = role === 'listener' || role === 'admin';
  const fields: Readonly<Record<TlsPart, Path>> = {
    cert: ['certFile'],
    key: ['keyFile'],
    ca: [isListener ? 'clientCaFile' : 'caFile'],
    crl: ['clientCrlFile'],
    proxyCa: ['egressProxy', 'caFile'],
  };
  return fields[part];
}
