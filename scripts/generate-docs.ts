import { readFileSync, writeFileSync } from 'node:fs';
import { generatedPages, withGeneratedParts } from './docs/pages.ts';

// node scripts/generate-docs.ts
for (const page of generatedPages) {
  const file = new URL(`../${page}`, import.meta.url);
  writeFileSync(file, withGeneratedParts(page, readFileSync(file, 'utf8')));
}
