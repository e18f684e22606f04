import { readFileSync, writeFileSync } from 'node:fs';
import { withConfigSchema } from './docs/chart-schema.ts';

const file = new URL('../helm/countersign/values.schema.json', import.meta.url);
writeFileSync(file, withConfigSchema(readFileSync(file, 'utf8')));
