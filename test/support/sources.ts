import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../../', import.meta.url));

export interface Source {
  /** Relative to the project, with `/`. */
  readonly path: string;
  readonly text: string;
  readonly imports: readonly Import[];
}

export interface Import {
  /** A path relative to the project for our own files, otherwise the name of a package. */
  readonly of: string;
  readonly typeOnly: boolean;
}

/** The files that match, with their static imports. */
export function sourcesIn(pattern: string): Source[] {
  return globSync(pattern, { cwd: root })
    .map((path) => path.replaceAll('\\', '/'))
    .sort()
    .map((path) => {
      const text = readFileSync(join(root, path), 'utf8');
      return { path, text, imports: importsOf(path, text) };
    });
}

const statement = /^(?:import|export)\s+(type\s+)?([^'";=()]*?)\s+from\s+'([^']+)'/gm;

function importsOf(path: string, text: string): Import[] {
  return [...text.matchAll(statement)].map(([, type, names = '', from = '']) => ({
    of: from.startsWith('.') ? relative(root, join(root, dirname(path), from)) : packageOf(from),
    typeOnly: type !== undefined || onlyTypes(names),
  }));
}

/** `{ type A, type B }` imports nothing at run time. */
function onlyTypes(names: string): boolean {
  const listed = /^\{([^}]*)\}$/.exec(names.trim())?.[1];
  const parts = (listed ?? '').split(',').map((part) => part.trim());
  return parts.some((part) => part !== '') && parts.every((part) => part === '' || part.startsWith('type '));
}

function packageOf(from: string): string {
  if (from.startsWith('node:')) return from;
  return from
    .split('/')
    .slice(0, from.startsWith('@') ? 2 : 1)
    .join('/');
}
