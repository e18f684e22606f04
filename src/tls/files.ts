import { readConsistent } from '../util/consistent-read.ts';
import { type TlsFault, type TlsMaterial, type TlsPart, tlsFaults } from './material.ts';

/** Paths of PEM files that are used together. */
export type TlsFiles = Readonly<Partial<Record<TlsPart, string>>>;

/** What uses certificates: the listener, the client of Vault, and the client of each environment's gateway. */
export interface TlsUser {
  readonly role: 'listener' | 'vault' | 'gateway';
  /** Of a gateway. */
  readonly environment?: string;
}

/** CA bundles of a whole system are a few hundred kilobytes. */
const maximumBytes = 4_194_304;
const parts: readonly TlsPart[] = ['cert', 'key', 'ca'];

/**
 * Reads files of one moment, so that a pair that is being replaced is the old or the new one.
 *
 * @returns what can be used, or every reason why it cannot
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
    { maximumBytes },
  ).catch((error: unknown): TlsFault => {
    const at = named.find(({ file }) => file === fieldOf(error, 'path'));
    return { part: at?.part ?? named[0]?.part ?? 'cert', message: messageOf(error) };
  });
  if ('message' in read) return { faults: [read] };
  const texts = named.map(({ part }, index) => [part, read.contents[index]?.toString('utf8')] as const);
  const absent = texts.filter(([, text]) => text === undefined);
  const material: TlsMaterial = Object.fromEntries(texts.filter(([, text]) => text !== undefined));
  const faults = [
    ...absent.map(([part]) => ({ part, message: 'does not exist' })),
    ...(absent.length === 0 ? tlsFaults(material) : []),
  ];
  return faults.length === 0 ? { material } : { faults };
}

/** Of a system error the code: its message names the path. */
function messageOf(error: unknown): string {
  const code = fieldOf(error, 'code');
  if (typeof code === 'string') return `cannot be read (${code})`;
  return error instanceof Error ? `cannot be read: ${error.message}` : 'cannot be read';
}

function fieldOf(error: unknown, name: 'code' | 'path'): unknown {
  return typeof error === 'object' && error !== null
    ? Object.entries(error).find(([key]) => key === name)?.[1]
    : undefined;
}
