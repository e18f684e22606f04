import { readFileSync } from 'node:fs';

const runbook = readFileSync(new URL('../../deploy/runbook.md', import.meta.url), 'utf8');

export const runbookText = (): string => runbook;

const others = ['Index', 'How to use it', 'Key problems'];

/** Each section on a condition by its heading. */
export function runbookSections(): ReadonlyMap<string, string> {
  const sections = runbook
    .split(/^## /m)
    .slice(1)
    .map((section) => [section.slice(0, section.indexOf('\n')), section] as const);
  return new Map(sections.filter(([heading]) => !others.includes(heading)));
}

/** The GitHub anchor of a heading of plain words. */
export function anchorOf(heading: string): string {
  return `#${heading.toLowerCase().replaceAll(' ', '-')}`;
}

/** What stands between backticks. */
export const codes = (text: string): string[] =>
  [...text.matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code);

/** The rows of the table of messages: the cells of each. */
export function keyProblems(): string[][] {
  const [, table = ''] = runbook.split('\n## Key problems\n');
  return table
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .slice(1)
    .map((line) => line.split('|').slice(1, -1).map(cell));
}

const cell = (text: string): string => text.trim().replace(/^`(.*)`$/, '$1');
