import { readFileSync } from 'node:fs';
import { errorCode } from '../errors.ts';
import { readConsistent } from '../read-files.ts';
import { entriesOf } from '../util/text.ts';
import { type TlsFault, type TlsMaterial, type TlsPart, tlsFaults } from './tls-material.ts';

/** Paths of PEM files that belong together. */
export type TlsFiles = Readonly<Partial<Record<TlsPart, string | undefined>>>;

/** The fields of a connection to a server that name its files. */
interface ConnectionFiles {
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  readonly egressProxy?: { readonly caFile?: string | undefined } | undefined;
}

export function tlsFilesIn({ certFile, keyFile, caFile, egressProxy }: ConnectionFiles): TlsFiles {
  return { cert: certFile, key: keyFile, ca: caFile, proxyCa: egressProxy?.caFile };
}

/** For commands: reads the files of one connection without a check. @throws Error of node:fs */
export function readTlsMaterial(connection: ConnectionFiles): TlsMaterial {
  const files = Object.entries(tlsFilesIn(connection));
  return Object.fromEntries(
    files.flatMap(([part, file]) => (file === undefined ? [] : [[part, readFileSync(file, 'utf8')]])),
  );
}

/** User of certificates: the proxy port, the admin port, the Vault client, or the client of an environment's gateway. */
export interface TlsUser {
  readonly role: 'listener' | 'admin' | 'vault' | 'gateway';
  /** For `gateway`. */
  readonly environment?: string;
}

/** A system's CA bundle has a few hundred kilobytes. */
export const maxCertificateBytes = 4_194_304;
const parts: readonly TlsPart[] = ['cert', 'key', 'ca', 'crl', 'proxyCa'];

/**
 * Reads the files consistently: a certificate and key that are being replaced are both old or both new.
 *
 * @returns the material if it is valid, otherwise all faults
 */
export async function readTlsFiles(
  files: TlsFiles,
): Promise<{ readonly material: TlsMaterial } | { readonly faults: readonly TlsFault[] }> {
  const named = parts.flatMap((part) => {
    const file = files[part];
    return file === undefined ? [] : [{ part, file }];
  });
  const read = await readConsistent(
    named.map(({ file }) => file),
    { maximumBytes: maxCertificateBytes },
  ).catch((error: unknown): TlsFault => {
    const at = named.find(({ file }) => file === entriesOf(error)['path']);
    return { part: at?.part ?? named[0]?.part ?? 'cert', message: messageOf(error) };
  });
  if ('message' in read) return { faults: [read] };
  const texts = named.map(({ part }, index) => [part, read.contents[index]?.toString('utf8')] as const);
  const absent = texts.filter(([, text]) => text === undefined);
  const material: TlsMaterial = Object.fromEntries(texts.filter(([, text]) => text !== undefined));
  const faults =
    absent.length === 0 ? tlsFaults(material) : absent.map(([part]) => ({ part, message: 'does not exist' }));
  return faults.length === 0 ? { material } : { faults };
}

/** Uses the code of a system error: its message would repeat the path. */
function messageOf(error: unknown): string {
  const code = errorCode(error);
  if (code !== undefined) return `cannot be read (${code})`;
  return error instanceof Error ? `cannot be read: ${error.message}` : 'cannot be read';
}
