import { readFileSync, writeFileSync } from 'node:fs';
import { withTables } from './docs/tables.ts';

const file = new URL('../README.md', import.meta.url);
writeFileSync(file, withTables(readFileSync(file, 'utf8')));
