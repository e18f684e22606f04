import { access, constants, readdir, stat } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
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

const readableByAll = 0o004;
const passableByAll = 0o001;

/** A key directory that does not exist; key files that every user of this machine can read: one finding, with the first of them. */
export async function keyDirectoryNotices({ keys }: Config): Promise<Finding[]> {
  if (keys.source !== 'directory') return [];
  const path = ['keys', 'directory'];
  const isMissing = await stat(keys.directory).then(
    () => false,
    (error: unknown) => errorCode(error) === 'ENOENT',
  );
  if (isMissing)
    return [
      { path, message: 'names a folder that does not exist: requests that need a key fail until it does' },
    ];
  if (!(await isPassable(dirname(keys.directory)))) return [];
  // {environment}/{login}/{file}
  const files = await openFilesBelow(keys.directory, 2);
  const [first] = files.toSorted();
  if (first === undefined) return [];
  const others = files.length === 1 ? '' : `, as ${files.length - 1} more`;
  const message = `has a file that every user of this machine can read, ${relative(keys.directory, first)}${others}: chmod o-r, or chmod 700 the directory`;
  return [{ path, message }];
}

/** Files in the folders at this depth that all may read on their way from here. Symbolic links are followed. */
async function openFilesBelow(folder: string, depth: number): Promise<string[]> {
  const mode = await modeOf(folder);
  if (mode === undefined || (mode & passableByAll) === 0) return [];
  const entries = await readdir(folder).catch(() => []);
  // A mounted Secret has its files once more in a folder `..data`.
  const paths = entries.filter((name) => !name.startsWith('..')).map((name) => join(folder, name));
  const found: string[] = [];
  for (const path of paths) {
    if (depth > 0) found.push(...(await openFilesBelow(path, depth - 1)));
    else if (((await modeOf(path)) ?? 0) & readableByAll) found.push(path);
  }
  return found;
}

/** Whether all may pass a folder and those that it is in. */
async function isPassable(folder: string): Promise<boolean> {
  const parent = dirname(folder);
  const mode = (await modeOf(folder)) ?? 0;
  return (mode & passableByAll) !== 0 && (parent === folder || (await isPassable(parent)));
}

/** `undefined` where there is nothing, or no such mode. */
async function modeOf(path: string): Promise<number | undefined> {
  if (process.platform === 'win32') return undefined;
  const found = await stat(path).catch(() => undefined);
  return found?.mode;
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

/** All certificate, key and CA files of a configuration by user, with the configuration path of its settings. */
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
