import { readFileSync, writeFileSync } from 'node:fs';
import { withTables } from './readme-tables.ts';

const file = new URL('../../README.md', import.meta.url);
writeFileSync(file, withTables(readFileSync(file, 'utf8')));
