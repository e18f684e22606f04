import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { generatedPages, withGeneratedParts } from '../../scripts/docs/pages.ts';
import { root } from '../support/sources.ts';

const pages = globSync('**/*.md', { cwd: root, exclude: (path) => /(^|\/)node_modules$/.test(path) }).sort();

describe('Markdown pages', () => {
  it.each(pages)('%s has no broken link', (page) => {
    expect(linksIn(proseOf(page)).filter((link) => !resolves(link, page))).toEqual([]);
  });
});

it('The security model has the number of production packages of the lock file', () => {
  const { packages }: { packages: Record<string, { dev?: boolean; optional?: boolean }> } = JSON.parse(
    readFileSync(join(root, 'package-lock.json'), 'utf8'),
  );
  const production = Object.entries(packages).filter(
    ([path, { dev, optional }]) => path !== '' && !dev && !optional,
  );
  const page = readFileSync(join(root, 'docs/security-model.md'), 'utf8');
  expect(/(\d+) production packages/.exec(page)?.[1]).toBe(String(production.length));
});

describe('Generated parts (npm run generate)', () => {
  it.each(generatedPages)('of %s are current', (page) => {
    const text = readFileSync(join(root, page), 'utf8');
    expect(withGeneratedParts(page, text)).toBe(text);
  });

  it('are only in pages that the generator knows', () => {
    const marked = pages.filter((page) => /^<!-- generated: /m.test(readFileSync(join(root, page), 'utf8')));
    expect(marked).toEqual([...generatedPages].sort());
  });
});

function resolves(link: string, page: string): boolean {
  if (/^(https?|mailto):/.test(link)) return true;
  const [path = '', anchor] = link.split('#');
  const target = path === '' ? page : join(dirname(page), path);
  if (!existsSync(join(root, target))) return false;
  return anchor === undefined || (target.endsWith('.md') && anchorsIn(target).has(anchor));
}

/** Inline links and images, also an image inside a link. */
function linksIn(prose: string): string[] {
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
}

/** As GitHub makes them: a heading that occurs again gets a number. */
function anchorsIn(page: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, title = ''] of proseOf(page).matchAll(/^#+ +(.*?) *$/gm)) {
    const text = title.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const anchor = text.replace(/[^\p{L}\p{N}_ -]/gu, '').replaceAll(' ', '-');
    let unique = anchor;
    for (let count = 1; anchors.has(unique); count += 1) unique = `${anchor}-${count}`;
    anchors.add(unique);
  }
  return anchors;
}

/** A page without its code, in which brackets and # mean something else. A block may begin a list item. */
function proseOf(page: string): string {
  const text = readFileSync(join(root, page), 'utf8');
  return text
    .replace(/^ *(?:(?:\d+\.|[-*]) +)?```[^]*?^ *```/gm, '')
    .replace(/`[^`\n]*`/g, (code) => code.replace(/[[\]()]/g, ''));
}
