import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './sources.ts';

/** A file as words: names are split at capitals, hyphens and underscores, and everything is in lower case. */
export interface WordedFile {
  readonly path: string;
  /** The path comes first. One space between two words, also where a line ends in a comment. */
  readonly words: string;
}

/**
 * @param exclude paths and folders that are left out
 * @param names of the public interface, which are no words
 */
export function wordedFiles(
  patterns: readonly string[],
  exclude: readonly string[],
  names: readonly string[] = [],
): WordedFile[] {
  const textOf = (path: string): string =>
    names.reduce((text, name) => text.replaceAll(name, ''), readFileSync(join(root, path), 'utf8'));
  return globSync([...patterns], { cwd: root, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length).replaceAll('\\', '/'))
    .filter((path) => !exclude.some((one) => path === one || path.startsWith(`${one}/`)))
    .sort()
    .map((path) => ({ path, words: wordsOf(`${path}\n${textOf(path)}`) }));
}

export interface Hit {
  readonly path: string;
  readonly count: number;
}

export function wordsOf(text: string): string {
  const separated = text
    .replace(/([a-z\d])([A-Z])/g, '$1 $2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .replace(/[^a-z\d]+/g, ' ');
  return ` ${separated} `;
}

/** How often a word or phrase is in each file that has it. `*` matches the rest of a word. */
export function hits(files: readonly WordedFile[], word: string): Hit[] {
  const pattern = new RegExp(`(?<= )${wordsOfPattern(word)}(?= )`, 'g');
  return files
    .map(({ path, words }) => ({ path, count: words.match(pattern)?.length ?? 0 }))
    .filter(({ count }) => count > 0);
}

function wordsOfPattern(word: string): string {
  return word
    .split('*')
    .map((part) => wordsOf(part).trim())
    .join('[a-z\\d]*');
}
