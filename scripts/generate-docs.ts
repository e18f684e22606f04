import { readFileSync, writeFileSync } from 'node:fs';
import { alertRules, objectiveRules } from './docs/alert-rules.ts';
import { generatedPages, withGeneratedParts } from './docs/pages.ts';
import { statusSchemaFile } from './docs/status-schema.ts';

// node scripts/generate-docs.ts
for (const page of generatedPages) {
  const file = new URL(`../${page}`, import.meta.url);
  writeFileSync(file, withGeneratedParts(page, readFileSync(file, 'utf8')));
}
writeFileSync(new URL('../docs/status.schema.json', import.meta.url), statusSchemaFile());
const prometheus = new URL('../deploy/prometheus/', import.meta.url);
writeFileSync(new URL('alerts.rules.yaml', prometheus), alertRules());
writeFileSync(new URL('objectives.rules.yaml', prometheus), objectiveRules());
