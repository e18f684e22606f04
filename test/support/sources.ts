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

/** The files that match, with their imports. */
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

/** When it runs; in types too. */
const dynamic = /(\btypeof )?\bimport\('([^']+)'\)/g;

function importsOf(path: string, text: string): Import[] {
  const imported = (from: string, typeOnly: boolean): Import => ({
    of: from.startsWith('.') ? relative(root, join(root, dirname(path), from)) : packageOf(from),
    typeOnly,
  });
  return [
    ...Array.from(text.matchAll(statement), ([, type, names = '', from = '']) =>
      imported(from, type !== undefined || onlyTypes(names)),
    ),
    ...Array.from(text.matchAll(dynamic), ([, type, from = '']) => imported(from, type !== undefined)),
  ];
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
