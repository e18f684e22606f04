import { readFileSync } from 'node:fs';
import { entriesOf, parseJson } from '../util/text.ts';

/** The directory of package.json, for both `src/` and the built `dist/`. */
export const packageRoot = new URL('../../', import.meta.url);

export function packageVersion(): string {
  return String(entriesOf(parseJson(readFileSync(new URL('package.json', packageRoot), 'utf8')))['version']);
}
