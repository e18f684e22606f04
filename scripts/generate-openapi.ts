import { writeFileSync } from 'node:fs';
import { openApiDocument } from './docs/openapi.ts';

writeFileSync(new URL('../docs/openapi.yaml', import.meta.url), openApiDocument());
