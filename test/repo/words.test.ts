import { globSync, readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';

/** British spelling, and what docs/glossary.md has another term for. A `*` matches the rest of a word. */
const banned = `
  behaviour colour* licence spelt authoris* initialis* normalis* recognis* serialis*
  answer answers reply replies exchange* refusal* errand* lane* passage* roster* sighting* shelf shelves vitals
`;

/** The page that explains them, this list, what happened, and data that others made. */
const allowed = ['docs/glossary.md', 'test/repo/words.test.ts', 'test/vectors/**'];
const texts = [
  '{README,SECURITY,CONTRIBUTING}.md',
  '{package,tsconfig,biome}*.json',
  'Dockerfile',
  '.ci/run',
  '{src,scripts,deploy,helm,config,docs,test}/**/*.{ts,mts,cjs,js,md,yaml,yml,tpl,txt,hcl,sh}',
  '{config,helm,deploy/grafana}/*.json',
];
const paths = globSync(texts, { exclude: allowed }).filter((path) => path !== 'package-lock.json');

/** Names are split at capitals, hyphens and underscores: `lane` finds `createLane` and `lane-id`, not `planes`. */
function bannedIn(text: string): string[] {
  const words = text
    .replaceAll('gateway-reply-invalid', '') // a public name
    .replace(/([a-z\d])([A-Z])/g, '$1 $2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .replaceAll('_', ' ');
  const pattern = banned.trim().replaceAll(/\s+/g, '|').replaceAll('*', '[a-z]*');
  return words.match(new RegExp(`\\b(${pattern})\\b`, 'gi')) ?? [];
}

it('no text has a word that must not come back', () => {
  expect(paths).toEqual(expect.arrayContaining(['README.md', 'src/main.ts', 'helm/countersign/values.yaml']));
  const found = paths.map((path) => [path, ...bannedIn(`${path}\n${readFileSync(path, 'utf8')}`)]);
  expect(found.filter(([, word]) => word !== undefined)).toEqual([]);
});
