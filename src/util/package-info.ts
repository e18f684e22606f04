import { readFileSync } from 'node:fs';

/** The folder of package.json: the same for `src/main.ts` and for a built `dist/main.js`. */
export const packageRoot = new URL('../../', import.meta.url);

/** The version in package.json. */
export function packageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('package.json', packageRoot), 'utf8'));
  if (typeof manifest === 'object' && manifest !== null && 'version' in manifest)
    return String(manifest.version);
  throw new Error('package.json has no version');
}
