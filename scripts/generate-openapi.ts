import { writeFileSync } from 'node:fs';
import { openApiDocument, openApiDocumentWith } from './docs/openapi.ts';

// Writes docs/openapi.yaml, or prints one with the operations of a file such as config/operations.yaml.
const [file] = process.argv.slice(2);
if (file === undefined) writeFileSync(new URL('../docs/openapi.yaml', import.meta.url), openApiDocument());
else process.stdout.write(await openApiDocumentWith(file));
