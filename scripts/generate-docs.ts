import { readFileSync, writeFileSync } from 'node:fs';
import { generatedPages, withGeneratedParts } from './docs/pages.ts';
import { statusSchemaFile } from './docs/status-schema.ts';

// node scripts/generate-docs.ts
for (const page of generatedPages) {
  const file = new URL(`../${page}`, import.meta.url);
  writeFileSync(file, withGeneratedParts(page, readFileSync(file, 'utf8')));
}
writeFileSync(new URL('../docs/status.schema.json', import.meta.url), statusSchemaFile());
